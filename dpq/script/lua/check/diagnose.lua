-- diagnose: find what is wrong with the states of a task, its payload and its key.
-- Needs: problem, groups, heads, order
-- Gives: place_of(set, id, task): the right member of a task in ready or waiting; and true if the task is the head of
--          its group.
--        diagnose(id, task), which reports a wrong state, payload or key.
local function place_of(set, id, task)
  local member = task.order .. id
  if set == waiting then
    return behind(task.group, score_of(task), member)
  end
  local _, first, shown = head_of(task.group)
  return first == member and shown or member, first == member
end

local function diagnose(id, task)
  local states = {}
  local member, heads = place_of(ready, id, task)
  for _, try in ipairs({ { 'delayed', delayed, id }, { 'invisible', invisible, id }, { 'dead', dead, id },
    { 'ready', ready, member }, { 'waiting', waiting, task.group ~= '' and place_of(waiting, id, task) or '' } }) do
    local score = redis.call('ZSCORE', try[2], try[3])
    if score then
      states[#states + 1], states[try[1]] = try[1], score
    end
  end
  if states.ready and task.group ~= '' and not heads then
    problem('not the head', id, task.group)
  end
  if #states ~= 1 then
    problem('in ' .. #states .. ' states', id, table.concat(states, ' '))
  end
  if task.inline == '' and redis.call('HEXISTS', payload, id) == 0 then
    problem('no payload', id)
  end
  if task.key ~= '' and redis.call('HGET', keys, task.key) ~= id then
    problem('key lost', id, task.key)
  end
end
