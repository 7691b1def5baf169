-- limited: find what is wrong with the settings, the limits and the counted leases.
-- Needs: now, record, problem, gate, booked, notes, rules, counted
-- Gives: look_at_settings(), which reports lost settings; look_at_rules(name, text);
--        look_at_lease(id), which reports a lease that is not counted;
--        look_at_tracked(member), which reports an entry that should have gone: an ended lease, or a place in a line.
local function look_at_rules(name, text)
  if not parsed(text) then
    problem('limit cannot be read', name, text)
  end
end

local function look_at_settings()
  local format, gated, rules = unpack(redis.call('HMGET', conf, 'format', 'gated', 'queue_rules'))
  local tasks = redis.call('HLEN', meta) + redis.call('HLEN', payload) > 0
  if tasks and not string.match(format or '', '^%d+$') then
    problem('settings lost', 'format', '')
  end
  if tasks and not redis.call('HGET', stats, 'pushed') then
    problem('settings lost', 'pushed', 'the count of all pushes')
  end
  if not gated and redis.call('EXISTS', limits, gates) > 0 then
    problem('limits not in force', 'gated', 'groups have limits or are closed')
  end
  if rules then
    look_at_rules('', rules)
  end
end

local function look_at_lease(id)
  local task = read(redis.call('HGET', meta, id) or '')
  local member = task and counted_as(id, task)
  if member and not redis.call('ZSCORE', tracked, member) then
    problem('lease not counted', id, task.group)
  end
end

-- Returns true if a task of this queue counts as `scope TAB id`: it runs, or it waits for its retry (counted).
local function counts(scope, id)
  local task = read(redis.call('HGET', meta, id) or '')
  local runs_as = task and live_note(task, RUNS_AS)
  local fits = task and (scope == '' or task.group == scope or runs_as and scope == task.group .. '\t' .. runs_as)
  return fits and (redis.call('ZSCORE', invisible, id)
    or task.deliveries ~= '0' and redis.call('ZSCORE', delayed, id))
end

local function look_at_tracked(member)
  local line, ends = string.match(member, '^([^\11]*)\11.*\11(%d+)%l[^\11]*$')
  local scope, id = string.match(member, '^(.*)\t([^\t]*)$')
  if string.byte(member) == 14 or member == '\t' then -- a producer that waits for room; waiters at a full queue
    return
  elseif string.find(member, '\12', 1, true) then
    local known = gate_of(string.match(member, '^[^\12]*')).booked
    if not (known and known[2] > 0) then
      problem('caller in no line', member, 'in tracked')
    end
  elseif line then
    local known = gate_of(line).booked
    if tonumber(ends) > instant and not (known and known[2] > instant) then
      problem('caller in no line', member, 'in tracked')
    end
  elseif not (id and (is_permit(id) or counts(scope, id))) then
    problem('lease that has ended', member, 'in tracked')
  end
end
