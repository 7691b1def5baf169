-- counted: find the entries of tracked that count a lease: for the concurrency of its group, or of the member that it
-- runs as; in a family, for that of the queue as well.
-- Keys: tracked kin
-- Needs: gate, notes, marks
-- Gives: entries_of(id, task), the entries that count a lease;
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

local function entries_of(id, task)
  local entries = { counted_as(id, task) }
  if kin and gate_of('').rules.concurrency > 0 then -- a family counts the leases of all its queues in tracked
    entries[#entries + 1] = '\t' .. id
  end
  return entries
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
  for _, each in ipairs(entries_of(id, task)) do
    redis.call('ZADD', tracked, '0', each)
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
