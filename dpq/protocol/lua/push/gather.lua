-- gather: the pushed tasks of groups come in together: of each group the best stands in ready, the others in waiting.
-- Keys: waiting groups closed conf
-- Needs: groups, place, open_or_close
-- Gives: gather(tasks), of ids, as `others` of fresh.
local function gather(tasks)
  local names, best_of, behind_it, rise, heads_now = {}, {}, {}, {}, {}
  local in_turn = redis.call('HGET', conf, 'fairness') == 'round_robin'
  local function wait(group, score, member)
    behind_it[#behind_it + 1], behind_it[#behind_it + 2] = '0', behind(group, score, member)
  end

  for id, task in pairs(tasks) do
    local group, score, member = task.group, score_of(task), task.order .. id
    local best = best_of[group]
    if group == '' then
      enter(id, task)
    elseif not best then
      names[#names + 1], best_of[group] = group, { score, member }
    elseif score < best[1] or score == best[1] and member < best[2] then
      wait(group, best[1], best[2])
      best[1], best[2] = score, member
    else
      wait(group, score, member)
    end
  end

  local heads = names[1] and redis.call('HMGET', groups, unpack(names))
  local some_closed = names[1] and redis.call('ZRANGE', closed, '0', '0')[1]
  for i, group in ipairs(names) do
    local score, member = best_of[group][1], best_of[group][2]
    local head_score, shown, first = string.match(heads[i] or '', '^(%S+) (%S+) ?(%S*)$')
    first, head_score = first == '' and shown or first, tonumber(head_score)
    local shut_now = not head_score and some_closed and redis.call('ZSCORE', closed, group)
    if not (head_score or shut_now or in_turn) then -- as lead, but all at once
      local n = #rise
      rise[n + 1], rise[n + 2] = string.format('%.17g', score), member
      heads_now[n + 1], heads_now[n + 2] = group, rise[n + 1] .. ' ' .. member
    elseif not head_score and not shut_now then
      lead(group, score, member)
    elseif head_score and (score < head_score or score == head_score and member < first) then
      lead(group, score, member, shut(group))
    else
      wait(group, score, member)
      stirred[group] = not head_score and heavy() or stirred[group] -- it may be let in before what waited so far
    end
  end
  if #rise > 0 then
    lead_all(rise, heads_now)
  end
  if #behind_it > 0 then
    redis.call('ZADD', waiting, unpack(behind_it))
  end
end
