-- gather_turns: store the pushed tasks of groups all at once. The best task of each group stands in ready, the others in
-- waiting.
-- Keys: waiting groups closed conf
-- Needs: heads, groups, place, open_or_close
-- Gives: gather_all(tasks), for the list `others` of fresh.
local function gather_all(tasks)
  local names, best_of, behind_it, rise, heads_now, former = {}, {}, {}, {}, {}, {}
  local in_turn = (redis.call('HGET', conf, 'fairness') or 'none') ~= 'none'
  local function wait(group, score, member)
    local n = #behind_it
    behind_it[n + 1], behind_it[n + 2] = '0', behind(group, score, member)
  end

  for n = 1, #tasks, 3 do
    local group, score, member = tasks[n], tasks[n + 1], tasks[n + 2]
    local best = best_of[group]
    if group == '' then
      arrive(score, member)
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
    local rises = not shut_now and (not head_score or score < head_score or score == head_score and member < first)
    if rises and in_turn then
      lead(group, score, member, head_score and shut(group))
    elseif rises then -- as shut and lead do, but for all groups at once
      local n, text = #rise, score_text(score)
      rise[n + 1], rise[n + 2], heads_now[n + 1], heads_now[n + 2] = text, member, group, text .. ' ' .. member
      if head_score then
        former[#former + 1] = shown
        wait(group, head_score, first)
      end
    else
      wait(group, score, member)
      stirred[group] = not head_score and heavy() or stirred[group] -- it may run before tasks that wait already
    end
  end
  if #rise > 0 then
    lead_all(rise, heads_now, former)
    admitted = admitted + #rise / 2
  end
  if #behind_it > 0 then
    redis.call('ZADD', waiting, unpack(behind_it))
  end
end
