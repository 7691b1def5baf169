-- gather: store the pushed tasks of groups all at once. The best task of each group stands in ready, the others in
-- waiting.
-- Needs: heads
-- Gives: gather(tasks, lead_in_turn): the tasks are group, score, member of ready, ... The function makes a task the
--        head of its group if groups take turns, else it is nil. It returns how many tasks are ready now, and the
--        closed groups among those of the tasks, or nil.
local function gather(tasks, lead_in_turn)
  local names, best_of, behind_it, rise, heads_now, former = {}, {}, {}, {}, {}, {}
  local led, still_closed = 0, nil
  local function wait(group, score, member)
    local n = #behind_it
    behind_it[n + 1], behind_it[n + 2] = '0', behind(group, score, member)
  end

  for n = 1, #tasks, 3 do
    local group, score, member = tasks[n], tasks[n + 1], tasks[n + 2]
    local best = best_of[group]
    if group == '' then -- its score has grown by aging
      rise[#rise + 1], rise[#rise + 2] = score, member
    elseif not best then
      names[#names + 1], best_of[group] = group, n
    elseif score < tasks[best + 1] or score == tasks[best + 1] and member < tasks[best + 2] then
      wait(group, tasks[best + 1], tasks[best + 2])
      best_of[group] = n
    else
      wait(group, score, member)
    end
  end

  local heads = names[1] and redis.call('HMGET', groups, unpack(names))
  local some_closed = names[1] and redis.call('ZRANGE', closed, '0', '0')[1]
  for i, group in ipairs(names) do
    local score, member = tasks[best_of[group] + 1], tasks[best_of[group] + 2]
    local head_score, first, shown = head_in(heads[i])
    local shut_now = not head_score and some_closed and redis.call('ZSCORE', closed, group)
    if shut_now or head_score and (head_score < score or head_score == score and first < member) then
      wait(group, score, member)
      if shut_now then
        still_closed = still_closed or {}
        still_closed[#still_closed + 1] = group
      end
    elseif lead_in_turn then
      lead_in_turn(group, score, member, head_score)
      led = led + 1
    else -- as shut and lead do, but for all groups at once
      local n, text = #rise, score_text(score)
      rise[n + 1], rise[n + 2] = text, member
      n = #heads_now
      heads_now[n + 1], heads_now[n + 2] = group, text .. ' ' .. member
      if head_score then
        former[#former + 1] = shown
        wait(group, head_score, first)
      end
    end
  end
  if heads_now[1] then
    lead_all(rise, heads_now, former)
  elseif rise[1] then
    redis.call('ZADD', ready, unpack(rise))
  end
  if behind_it[1] then
    redis.call('ZADD', waiting, unpack(behind_it))
  end
  return led + #rise / 2, still_closed
end
