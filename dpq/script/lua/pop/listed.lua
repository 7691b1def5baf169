-- listed: end the reply of pop with what a caller has to know that holds tasks until their moments.
-- Needs: now, early
-- Gives: listed(reply, told, metas): the reply with the list. `told` is the reply of rest, {-5}, or {0, -1, now}; metas
--        has the ids and records of the tasks.
local function listed(reply, told, metas)
  local list = { told[2] or -1, math.floor(instant * 1000), told[4] or 0 }
  for i = 1, #metas, 2 do
    local at = early.at[metas[i]]
    list[#list + 1] = at and math.ceil((at - instant) * 1000) or 0
  end
  reply[#reply + 1] = list
  return reply
end
