-- hold: let a task that waits for its retry keep its place among the running tasks of its group, if the limit of the
-- group has `in_order`. So no other task of the group runs before it. The entry of its lease stays in tracked.
-- Needs: rules, gate
-- Gives: hold(id, task), for a task that was put into delayed;
--        unhold(id, task), for a task that leaves delayed: true if it was held. Then its group may open.
local function hold(id, task)
  local gate = task.group ~= '' and tonumber(task.deliveries) > 0 and gate_of(task.group)
  if gate and gate.rules.in_order then
    redis.call('ZADD', tracked, '0', task.group .. '\t' .. id)
    gate.out = false -- to be counted again
  end
end

local function unhold(id, task)
  local group, gate = task.group, seen.gates[task.group]
  if group == '' or tonumber(task.deliveries) == 0 or redis.call('ZREM', tracked, group .. '\t' .. id) == 0 then
    return false
  elseif gate then
    gate.out = false
  end
  return true
end
