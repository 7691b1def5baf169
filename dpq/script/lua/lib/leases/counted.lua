-- counted: find the entry of tracked that counts a lease: for the concurrency of its group, or of the member that it
-- runs as.
-- Needs: gate, notes, marks
-- Gives: counted_as(id, task), the entry that counts a lease, or nil;
--        count_anew(id, task), which counts a lease after the rules have changed;
--        count_permits(group), which counts permits of members for their group, after it has ceased to be a pool.
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
