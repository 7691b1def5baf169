-- diagnose: find the states that a task is in, and what is wrong with them.
-- Keys: ready delayed invisible waiting payload dead keys
-- Needs: problem, groups, heads, score
-- Gives: place_of(set, id, task): the right member of a task in ready or waiting; and true if the task is the head of
--          its group.
--        diagnose(id, task): the names of the sets that the task is in, as a list, and as fields with its scores; then
--          three values that are true if its member, its payload and its key are right.
local function place_of(set, id, task)
  local member = task.order .. id
  if set == waiting then
    return behind(task.group, score_of(task), member)
  end
  local _, first, shown = head_of(task.group)
  return first == member and shown or member, first == member
end

local function diagnose(id, task)
  local states, placed = {}, true
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
  return states, placed, filled, holds
end
