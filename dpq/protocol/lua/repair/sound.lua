-- sound: find problems of gates and counted leases.
-- Keys: invisible meta tracked
-- Needs: now, record, problem, gate
-- Gives: four functions that report a problem, and return a true value then: gate_fault(scope, text), "bad gate" or
--        "probe without a lease"; stray(scope, text), a gate that nothing reads; lease_fault(member, score), "lease
--        that has ended", or, for a member with a score, "lease not counted"; lease_uncounted(id), the member that
--        tracked lacks.
local function gate_fault(scope, text)
  local opens, probe = string.match(text, '^(%S+) [-lh] (%S+) %S+ %S+ %S+ [Ea-z_%d.: ]*$')
  local never = (tonumber(opens or 0) or 0) > now + 3.2e11 -- no call closes for more than 10 years
  if never or not probe and not string.match(text, '^- [Ea-z_%d.: ]*$') then
    return problem('bad gate', scope, text)
  elseif probe and probe ~= '-' and probe ~= 'p' and not redis.call('ZSCORE', invisible, probe) then
    return problem('probe without a lease', scope, probe)
  end
end

-- No group has that name, and the queue's own gate is in conf.
local function stray(scope, text)
  return scope == '' and problem('stray gate', scope, text)
end

local function lease_fault(member, score)
  local group, id = string.match(member, '^([^\t]*)\t(.*)$')
  local task = id and id ~= '' and read(redis.call('HGET', meta, id) or '')
  local holds = task and (group == '' or task.group == group) and redis.call('ZSCORE', invisible, id)
  local fault = not holds and member ~= '\t' and 'lease that has ended' or score ~= '0' and 'lease not counted'
  return fault and problem(fault, member, 'in tracked')
end

local function lease_uncounted(id)
  local task = read(redis.call('HGET', meta, id) or '')
  local member = task and task.group ~= '' and task.group .. '\t' .. id
  if member and gate_of(task.group).rules.concurrency > 0 and not redis.call('ZSCORE', tracked, member) then
    problem('lease not counted', id, task.group)
    return member
  end
end
