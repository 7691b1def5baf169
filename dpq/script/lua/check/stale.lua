-- stale: find the entries of tracked that are to go: ended leases and permits, and places in lines.
-- Needs: now, record, problem, gate, booked, notes
-- Gives: look_at_tracked(member), which reports an entry that should have gone.

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
