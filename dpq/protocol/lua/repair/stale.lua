-- stale: find the entries of tracked that are to go: ended leases and permits, and places in lines. A
-- lease may be that of a task of any queue of the family; `theirs` has three keys of each (LEASE_PARTS of keys.py).
-- Keys: invisible meta delayed kin theirs
-- Needs: now, record, problem, gate, booked, notes, marks
-- Gives: is_stale(member), true if the entry is to go. It reports that, unless its time is over, or its queue dropped.

-- Returns true if a task of this queue counts as `scope TAB id`: it runs, or it waits for its retry (hold).
local function counts_in(queue_meta, queue_invisible, queue_delayed, scope, id)
  local task = read(redis.call('HGET', queue_meta, id) or '')
  local runs_as = task and live_note(task, RUNS_AS)
  local fits = task and (scope == '' or task.group == scope or runs_as and scope == task.group .. '\t' .. runs_as)
  return fits and (redis.call('ZSCORE', queue_invisible, id)
    or task.deliveries ~= '0' and redis.call('ZSCORE', queue_delayed, id))
end

local function counts(scope, id)
  local found = counts_in(meta, invisible, delayed, scope, id)
  for i = 1, kin and #theirs or 0, 3 do
    found = found or counts_in(theirs[i], theirs[i + 1], theirs[i + 2], scope, id)
  end
  return found
end

local function is_stale(member)
  local line, ends = string.match(member, '^([^\11]*)\11.*\11(%d+)%l[^\11]*$')
  local scope, id = string.match(member, '^(.*)\t([^\t]*)$')
  local queue, listed = string.match(member, '\12%d+ (.*) %d*$'), false
  if string.byte(member) == 14 then -- a producer that waits for room (producers)
    return tonumber(string.match(member, '\14(%d+) [^\14]*$') or 0) <= now
  elseif line then
    local known = gate_of(line).booked
    local lost = tonumber(ends) > instant and not (known and known[2] > instant)
    return lost and problem('caller in no line', member, 'in tracked') or tonumber(ends) <= instant
  elseif string.find(member, '\12', 1, true) then -- a queue in its line (queue_line)
    for i = 1, kin and #kin or 0, 4 do
      listed = listed or kin[i] == queue
    end
    return not listed
  elseif id and is_permit(id) then
    return not permit_out(id)
  elseif member == '\t' then -- waiters at a full queue
    return false
  end
  return not (id and counts(scope, id)) and problem('lease that has ended', member, 'in tracked')
end
