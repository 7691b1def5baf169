-- hold: let a task that waits for its retry keep its place among the running tasks of its group, if the limit of the
-- group has `in_order`. So no other task of the group runs before it. The entry of its lease stays in tracked.
-- Keys: tracked
-- Needs: rules, gate
-- Gives: hold(id, task), for a task that was put into delayed;
--        let_go(id, task), for a task that leaves delayed: true if it was held. Then its group may open.
local function recount(group)
  if seen.gates[group] then
    seen.gates[group].out = false
  end
end

local function hold(id, task)
  if task.group ~= '' and tonumber(task.deliveries) > 0 and gate_of(task.group).rules.in_order then
    redis.call('ZADD', tracked, '0', task.group .. '\t' .. id)
    recount(task.group)
  end
end

local function let_go(id, task)
  if task.group ~= '' and tonumber(task.deliveries) > 0 and redis.call('ZREM', tracked, task.group .. '\t' .. id) == 1 then
    recount(task.group)
    return true
  end
end
