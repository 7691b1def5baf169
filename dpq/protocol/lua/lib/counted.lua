-- counted: which entry of tracked counts a lease for the concurrency of its group, or of the member that it runs as.
-- Keys: tracked
-- Needs: gate, notes
-- Gives: counted_as(id, task), the entry or nil; apart_from_pool(id, task), the one that it had as a member;
--        count_permits(group), which lets permits of members count for a group that is no pool any more.
local function apart_from_pool(id, task)
  local member = live_note(task, '\28')
  return member and task.group .. '\t' .. member .. '\t' .. id
end

local function counted_as(id, task)
  local rules = task.group ~= '' and gate_of(task.group).rules
  if rules and rules.members then
    local each = rules.each[live_note(task, '\28') or '']
    return each and each.concurrency > 0 and apart_from_pool(id, task) or nil
  end
  return rules and rules.concurrency > 0 and task.group .. '\t' .. id or nil
end

local function count_permits(group)
  local gate = gate_of(group)
  if gate.rules.members or gate.rules.concurrency == 0 then
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
