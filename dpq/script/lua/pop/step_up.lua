-- step_up: give a group the next head after pop has taken its head out of ready.
-- Needs: groups, heads, order
-- Gives: step_up(group, frame, at, turn, score, member, heir): true; false if no task of the group waits. Task `at` of
--        the frame (take) was the head. The last three are as heir_of (groups) gives them, or nil if it was not called.
--        If the heir comes before the last task of the frame, it joins the frame. Else it is stored with the heirs of
--        other groups, when the frame is done. If there is no frame, it is stored at once.
local function join(frame, at, text, score, member)
  local popped, n = frame.popped, at + 1
  local beside = tonumber(popped[2 * n])
  while beside < score or beside == score and popped[2 * n - 1] < member do
    n = n + 1
    beside = tonumber(popped[2 * n])
  end
  local id = id_of(member)
  table.insert(popped, 2 * n - 1, text)
  table.insert(popped, 2 * n - 1, member)
  table.insert(frame.ids, n, id)
  table.insert(frame.raws, n, redis.call('HGET', meta, id))
end

local function step_up(group, frame, at, turn, score, member, heir)
  if not frame then
    return succeed(group, turn)
  elseif heir == nil then
    score, member, heir = heir_of(group)
  end
  if not heir then
    frame.emptied[#frame.emptied + 1] = group
    return false
  end
  local text, popped = score_text(score), frame.popped
  local last = tonumber(popped[#popped])
  local head, n = text .. ' ' .. member, #frame.rising
  if score < last or score == last and member < popped[#popped - 1] then
    redis.call('ZREM', waiting, heir)
    redis.call('HSET', groups, group, head)
    join(frame, at, text, score, member)
  else
    frame.heirs[#frame.heirs + 1] = heir
    frame.rising[n + 1], frame.rising[n + 2] = text, member
    frame.heads[n + 1], frame.heads[n + 2] = group, head
  end
  return true
end
