-- counted: find the entry of tracked that counts a lease: for the concurrency of its group, or of the member that it
-- runs as.
-- Needs: gate, notes, rules
-- Gives: counted_as(id, task), the entry that counts a lease, or nil;
--        count_anew(id, task), which counts a lease after the rules have changed;
--        count_permits(group), which counts permits of members for their group, after it has ceased to be a pool;
--        hold(id, task), for a task that was put into delayed. If the limit of its group has `in_order`, it keeps its
--        place among the running tasks, so that no other task of the group runs before it;
--        unhold(id, task), for a task that leaves delayed: true if it was held. Then its group may open;
--        back_at(gate), when the task comes back that holds a group so, ms, or nil.
local function counted_as(id, task)
  local rules = task.group ~= '' and gate_of(task.group).rules
  if rules and rules.members then
    local each = rules.each[live_note(task, RUNS_AS) or '']
    return each and each.concurrency > 0 and task.group .. '\t' .. live_note(task, RUNS_AS) .. '\t' .. id or nil
  end
  return rules and rules.concurrency > 0 and task.group .. '\t' .. id or nil
end

local function count_anew(id, task)
  local entry, member = counted_as(id, task), live_note(task, RUNS_AS)
  local scope = member and task.group .. '\t' .. member
  if entry and member and redis.call('ZREM', tracked, scope .. '\t' .. id) == 1 then -- or the lease would count twice
    local gate = gate_of(scope)
    if gate.probe == id and entry ~= scope .. '\t' .. id then -- the end of this probe will not reach the member
      gate.probe, gate.changed = 'p', true
    end
  end
  if entry then
    redis.call('ZADD', tracked, '0', entry)
  end
end

local function count_permits(group)
  local gate = gate_of(group)
  if gate.rules.members then
    return
  end
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', tracked, '[' .. group .. '\t', '(' .. group .. '\n', 'LIMIT',
    '0', '10000')) do
    local held, ends = string.match(entry, '^[^\t]*\t[^\t]+\t(~(%d+)~.*)$')
    if held then
      redis.call('ZREM', tracked, entry)
      redis.call('ZADD', tracked, '0', group .. '\t' .. held)
      gate.booked, gate.changed = gate.booked or { 0, 0, 0, 0, 0 }, true
      gate.booked[5] = math.max(gate.booked[5], tonumber(ends))
    end
  end
end

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

local function back_at(gate)
  local from, to, back = '[' .. gate.scope .. '\t', '(' .. gate.scope .. '\n', nil
  local held = gate.rules.in_order and redis.call('ZRANGE', tracked, from, to, 'BYLEX', 'LIMIT', '0', '9') or {}
  for _, entry in ipairs(held) do
    local due = tonumber(redis.call('ZSCORE', delayed, string.match(entry, '[^\t]*$')) or '')
    back = due and math.max(due, back or 0) or back
  end
  return back
end
