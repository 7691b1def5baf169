-- diagnose: find the states that a task is in, and what is wrong with them.
-- Keys: ready delayed invisible waiting payload dead keys
-- Needs: now, problem, groups, score
-- Gives: horizons, the latest valid moment of each part.
--        never_due(part, name, score, task): if an entry of a set is later than that, reports it and returns true.
--        place_of(set, id, task): the right member of a task in ready or waiting.
--        diagnose(id, task, spoilt): the names of the sets that the task is in, as a list, and as fields with its
--          scores; then four values that are true if its member, its payload, its key and its schedule are right.
--          `spoilt` has the invalid cron lines as keys; other cron lines are reported as the kind `cron`.

-- No call delays a task by more than 10 years, and the clock may have stepped back by some weeks. A limit may close a
-- group for 2000 years, see MAX_REFILL_SECONDS. A cron task may come again after decades.
local horizons = { delayed = now + 3.2e11, invisible = now + 3.2e11, closed = now + 9.5e13 }
local function never_due(part_name, name, score, task)
  local horizon = horizons[part_name]
  if task and part_name == 'delayed' and string.byte(task.schedule, 2) == 99 then
    horizon = now + 1.6e12
  end
  local never = horizon and tonumber(score) > horizon
  if never then
    problem('never due', name, 'in ' .. part_name .. ' at ' .. score)
  end
  return never
end

local function place_of(set, id, task)
  local member = task.order .. id
  if set == waiting then
    return behind(task.group, score_of(task), member)
  end
  local _, first, shown = head_of(task.group)
  return first == member and shown or member, first == member
end

local function diagnose(id, task, spoilt)
  local states, placed = {}, true
  local member, heads = place_of(ready, id, task)
  for _, try in ipairs({ { 'delayed', delayed, id }, { 'invisible', invisible, id }, { 'dead', dead, id },
    { 'ready', ready, member }, { 'waiting', waiting, task.group ~= '' and place_of(waiting, id, task) or '' } }) do
    local score = redis.call('ZSCORE', try[2], try[3])
    if score then
      states[#states + 1], states[try[1]] = try[1], score
    end
  end
  if states.ready and tonumber(states.ready) ~= score_of(task) then
    problem('wrong score', id, states.ready)
    placed = false
  elseif states.ready and task.group ~= '' and not heads then
    problem('not the head', id, task.group)
    placed = false
  end
  if #states ~= 1 then
    problem('in ' .. #states .. ' states', id, table.concat(states, ' '))
    placed = false
  end
  local filled = task.inline ~= '' or redis.call('HEXISTS', payload, id) == 1
  if not filled then
    problem('no payload', id)
  end
  local holds = task.key == '' or redis.call('HGET', keys, task.key) == id
  if not holds then
    problem('key lost', id, task.key)
  end
  local line = string.match(task.schedule, '^\tc %d+ %d+ (%S+ %S+ %S+ %S+ %S+ .*%S)$')
  local timed = task.schedule == '' or line and not spoilt[line]
    or string.match(task.schedule, '^\te %d+ %d+ [1-9]%d*$')
  if not timed or string.find(task.schedule, string.rep('%d', 16)) then
    problem('bad schedule', id, task.schedule)
    timed = false
  elseif line then
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = 'cron', id, line
  end
  return states, placed, filled, holds, timed
end
