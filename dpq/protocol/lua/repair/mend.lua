-- mend: look at a task, and mend it. Afterwards it is in exactly one set, with its record, its payload and its key.
-- Keys: ready delayed invisible waiting groups payload meta dead keys stats
-- Needs: now, record, problem, notice, ended, place, bury, batch_list, diagnose, notes, marks,
--        followed, until_opened
-- Gives: salvage(id), for an id without a readable record; look_at_task(id, raw, mends, torn). If `mends`, it mends the
--        task, and adds to `torn` the groups that must begin anew. Else it only reports.

-- Removes an id from delayed, invisible and dead. If a record or a payload is stored, it becomes a dead letter.
local function salvage(id, raw)
  for _, set in ipairs({ delayed, invisible, dead }) do
    redis.call('ZREM', set, id)
  end
  if raw or redis.call('HEXISTS', payload, id) == 1 then
    rescue(id, raw)
  end
end

local function awaits_others(task)
  return batch_list().awaited(task.options) or waits_in(task.options)
end

-- Returns the set in which a task is to stay, or nil if it is due. Of several sets it is the safest: the task does not
-- run twice at once, and comes back by itself. A task in no set has lost its lease or its delay. It is dead if it has
-- a reason, delayed if it was not due yet, else due.
local function home_of(task, states)
  if states.dead and (task.reason ~= '' or #states == 1) or #states == 0 and task.reason ~= '' then
    return 'dead'
  elseif states.invisible then
    return 'invisible'
  elseif states.delayed or #states == 0 and task.deliveries == '0'
    and (task.enqueued + task.wait > now or awaits_others(task)) then
    return 'delayed'
  end
end

-- Removes a task from all sets but its home.
local function clear(id, task, states, home, torn)
  for name, set in pairs({ delayed = delayed, invisible = invisible, dead = dead }) do
    if states[name] and name ~= home then
      redis.call('ZREM', set, id)
    end
  end
  if states.invisible and home ~= 'invisible' then
    ended({ id, task.group, live_note(task, RUNS_AS) or false }, true)
  end
  if states.ready then
    local member, heads = place_of(ready, id, task)
    redis.call('ZREM', ready, member)
    if heads then
      redis.call('HDEL', groups, task.group)
      torn[task.group] = true
    end
  end
  if states.waiting then
    redis.call('ZREM', waiting, (place_of(waiting, id, task)))
  end
end

local function look_at_task(id, raw, mends, torn)
  local task = read(raw)
  if not task then
    problem('bad record', id, raw)
    if not mends then
      return
    elseif not string.find(raw, '\n', 1, true) then
      redis.call('HSETNX', payload, id, '')
    end
    salvage(id, raw)
    task = read(redis.call('HGET', meta, id))
  end
  local states, placed, filled, holds = diagnose(id, task)
  if not mends or placed and filled and holds then
    return
  end
  local home = home_of(task, states)
  if not holds then
    local holder = redis.call('HGET', keys, task.key)
    local other = holder and read(redis.call('HGET', meta, holder) or '')
    if other and other.key == task.key then -- the other task keeps the key
      task.key = ''
    else
      redis.call('HSET', keys, task.key, id)
    end
  end
  if not filled then -- no worker can run an empty payload: it is no JSON
    redis.call('HSET', payload, id, '')
    task.error = task.error == '' and task.reason or task.error
    home, task.reason, placed = 'dead', 'payload missing', false
  end
  if not placed then
    clear(id, task, states, home, torn)
    if home == 'dead' and not states.dead then
      redis.call('ZADD', dead, stamp, id)
      redis.call('HINCRBY', stats, 'buried', '1')
    elseif home == 'delayed' and not states.delayed then
      local due = awaits_others(task) and UNTIL_OPENED or task.enqueued + task.wait
      redis.call('ZADD', delayed, due, id)
      notice(due - now)
    elseif not home and task.group == '' then
      enter(id, task)
    elseif not home then
      redis.call('ZADD', waiting, '0', (place_of(waiting, id, task)))
      torn[task.group] = true
    end
  end
  redis.call('HSET', meta, id, write(task))
end
