-- place: put a due task into ready, or into waiting behind the head of its group.
-- Needs: now, notice, groups, heads, order, keep, open_or_close, ended, counted, notes, callers, booked, gate
-- Gives: enter(id, task), which puts a due task in its place;
--        put_back(id, task, ms, free), which puts back a task that is in no set. It is ready `ms` from now. Until then
--        it holds its group in order (counted), unless `free` is true;
--        arrive(score, member), the same for a member of ready without a group;
--        leave(id, task, lapsed), which takes a task out of the set that holds it;
--        admit(quiet), to be called after the last of these. If tasks have become ready in this script, it wakes a
--        waiting consumer. It does not if `quiet`, or if the queue's own limit lets no task run before `shut_until`.
local arrivals, arrived = {}, 0

local function arrive(score, member) -- a task without a group
  arrivals[#arrivals + 1] = score
  arrivals[#arrivals + 1] = member
end

local function enter(id, task)
  local group, score, member = task.group, score_of(task), task.order .. id
  if group == '' then
    return arrive(score, member)
  end
  local best, first = head_of(group)
  local turn
  if best and (score < best or score == best and member < first) then
    best, turn = nil, shut(group)
  elseif best or redis.call('ZSCORE', closed, group) then
    redis.call('ZADD', waiting, '0', behind(group, score, member))
    stirred[group] = not best and heavy() or stirred[group] -- this task may run before the tasks that waited up to now
    return
  end
  lead(group, score, member, turn)
end

-- Takes a task out of the set that holds it.
local function leave(id, task, lapsed)
  local group, member = task.group, task.order .. id
  if redis.call('ZREM', invisible, id) == 1 then
    ended({ id, group, live_note(task, RUNS_AS) or false }, lapsed)
  elseif redis.call('ZREM', delayed, id) == 1 then
    stirred[group] = unhold(id, task) or stirred[group]
  elseif redis.call('ZREM', dead, id) == 1 then
    return
  elseif group == '' then
    redis.call('ZREM', ready, member)
  else
    local _, first, shown = head_of(group)
    if first == member then
      redis.call('ZREM', ready, shown)
      succeed(group)
    else
      redis.call('ZREM', waiting, behind(group, score_of(task), member))
      stirred[group] = not first and heavy() or stirred[group] -- the group may have saved units for this task
    end
  end
end

local function admit(quiet)
  if #arrivals > 0 then
    redis.call('ZADD', ready, unpack(arrivals))
    arrived, arrivals = arrived + #arrivals / 2, {}
  end
  local freed = stirred['']
  stirred[''] = nil
  for group in pairs(stirred) do
    open_or_close(group)
    stirred[group] = nil
  end
  call_callers()
  local kept = freed and is_awaited(gate_of('')) and kept_from_best(gate_of(''))
  keep()
  if freed then
    redis.call('HDEL', conf, 'shut_until')
    if not kept and redis.call('EXISTS', ready) == 1 then
      redis.call('ZADD', wake, '0', 'w')
    end
  elseif admitted + arrived > 0 and not quiet then
    rouse(1, redis.call('HGET', conf, 'shut_until'))
  end
end

local function put_back(id, task, ms, free)
  if ms > 0 then
    redis.call('ZADD', delayed, now + ms, id)
    if not free then
      hold(id, task)
    end
    notice(ms)
  else
    enter(id, task)
  end
end
