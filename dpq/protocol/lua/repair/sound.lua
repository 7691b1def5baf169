-- sound: find problems of gates and counted leases.
-- Keys: invisible meta tracked
-- Needs: now, record, problem, notes, counted, tokens, booked, gate, gate_text, marks
-- Gives: four functions. If they find a problem, they report it and return a true value:
--        gate_fault(scope, text): "bad gate" or "probe without a lease".
--        stray(scope, text): "stray gate", a gate that no script reads.
--        lease_fault(member, score): "lease that has ended" or "caller in no line"; if the score of the member is not
--          0, "lease not counted".
--        lease_uncounted(id): "lease not counted"; it returns the member that tracked lacks.
local function gate_fault(scope, text)
  local plain = tokens_of((cut_slots(text)))
  local opens, probe = string.match(plain, '^(%S+) [-lh] (%S+) %S+ %S+ %S+ [a-z_%d.: ]*$')
  opens = tonumber(opens or 0) or 0
  local never = opens > now + 3.2e11 and opens ~= 9e13 -- a call closes for at most 10 years, or until opened
  if never or not probe and not string.match(plain, '^- [a-z_%d.: ]*$') then
    return problem('bad gate', scope, text)
  elseif probe and #probe > 1 and not is_permit(probe) and not redis.call('ZSCORE', invisible, probe) then
    return problem('probe without a lease', scope, probe)
  end
end

-- No group has the name "", and the queue's own gate is in conf.
local function stray(scope, text)
  return scope == '' and problem('stray gate', scope, text)
end

-- Reports a caller whose member is malformed, or whose gate knows of no line. If the caller still waits, it asks again.
local function place_fault(member, score)
  local scope, ends = string.match(member, '^([^\11]*)\11%x+[%w_-]*\11(%d+)[wc][%w_-]*$')
  local known = scope and gate_of(scope).booked
  if score ~= '0' or not scope or #ends ~= 13 or tonumber(ends) > instant and not (known and known[2] > instant) then
    return problem('caller in no line', member, 'in tracked')
  end
end

local function lease_fault(member, score)
  if string.find(member, '\11', 1, true) then
    return place_fault(member, score)
  end
  local scope, id = string.match(member, '^(.*)\t([^\t]*)$')
  if id and is_permit(id) and string.match(id, '^~%d+~[%w_-]+$') then -- an ended permit counts no more
    return score ~= '0' and problem('lease not counted', member, 'in tracked')
  end
  local task = id and id ~= '' and read(redis.call('HGET', meta, id) or '')
  local runs_as = task and live_note(task, RUNS_AS)
  local fits = task and (scope == '' or task.group == scope or runs_as and scope == task.group .. '\t' .. runs_as)
  local holds = fits and redis.call('ZSCORE', invisible, id)
  local fault = not holds and member ~= '\t' and 'lease that has ended' or score ~= '0' and 'lease not counted'
  return fault and problem(fault, member, 'in tracked')
end

local function lease_uncounted(id)
  local task = read(redis.call('HGET', meta, id) or '')
  local member = task and counted_as(id, task)
  if member and not redis.call('ZSCORE', tracked, member) then
    problem('lease not counted', id, task.group)
    return member
  end
end
