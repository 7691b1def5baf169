-- stand: let a caller of acquire stand in a line.
-- Needs: now, callers, line, booking, booked
-- Gives: come_before(gates, lines, place, cost, at): if other callers or tasks come first at a gate, the gate in whose
--          line the caller is to stand, and when it is to ask again, ms; else nil.
--        stand(gate, place, channel, code, again, waits): the reply of acquire. If the caller waits, it stands in the
--          gate's line from now on.
-- At a member of a pool only callers come first that are pinned to this member.
local function come_before(gates, lines, place, cost, at)
  for i, gate in ipairs(gates) do
    local counts = gate.rules.concurrency > 0 or gate.probe ~= '-' or gate.rules.members
    if lines[i] and (counts or gate[1]) or is_awaited(gate) then
      local free, soonest = free_in(gate), math.huge
      local before = first_of(gate, math.max(1, math.min(free, 16)), place)
      local turn = turn_of(gate, cost, at, place, counts and #before + 1 >= free)
      if #before >= free then
        call_line(gate)
        for _, each in ipairs(standing(gate, place) <= #before and before or {}) do
          soonest = math.min(soonest, each.ends) -- the next caller looks if the called callers came
        end
        return lines[i] or lines[2], soonest
      elseif turn then
        return lines[i] or lines[2], turn
      end
    end
  end
end

local function stand(gate, place, channel, code, again, waits)
  local most = 30000
  if code == 2 then
    most = not waits and 50 or channel ~= '' and 2000 or math.min(20 * (1 + standing(gate, place)), 1000)
    again = math.min(again, instant + most)
  end
  if waits then
    local ends = math.min(again, instant + most) + 3000
    redis.call('ZADD', tracked, '0', gate.scope .. '\11' .. place .. '\11' .. string.format('%013.0f', ends) .. 'w'
      .. channel)
    gate.booked, gate.changed = gate.booked or { 0, 0, 0, 0, 0 }, true
    gate.booked[2] = math.max(gate.booked[2], ends)
    redis.call('HSET', conf, 'gated', '1')
    if gate.scope == '' then
      redis.call('ZADD', tracked, '0', '\t') -- the script that ends a lease looks at the line
    end
  end
  return { code, math.ceil((again - instant) * 1000), waits and place or '' }
end
