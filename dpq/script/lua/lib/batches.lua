-- batches: count what becomes of the tasks of batches, and release the task that waits for the end of a batch. A batch
-- is a text: "left done dead removed state began changed finished listed callback". The first four are numbers of
-- tasks. The state is o (open), s (sealed) or f (finished). The moments are ms. The callback is the id of the task that
-- waits, or "". If no task of a batch is left, the batch stands in the list (batch_list). docs/storage.md, "Batches".
-- Needs: now, notice, record, batch_list
-- Gives: batch_in(notes), the batch of a task by its notes or its record, or nil;
--        batching(), a table of functions, since few calls need them:
--        count(name, from, to, n): n tasks (1 if it is nil) go from one number of a batch to another, by the names of
--          these numbers. If `from` is nil the tasks are new, and so may be the batch; else an unknown batch stays so.
--          If the name is nil, it does nothing.
--        seal(name, id): once no task is left, the batch is finished, and task `id` is released, unless it is "".
--        release(id), which lets a task that waits for a batch be due.
--        of(name), the batch as a table; if it is unknown, it is new, and `new` is set.
--        keep(name, batch), which stores a batch, and finishes it if that is due.
--        hold() and settle(): between them tasks may come and go, and no batch is finished before settle.
--        take_released(): how many tasks were released since the last such call in this script.
local function batch_in(notes)
  return string.match(notes, '^[^\n]*\27([^\t\n\1\23-\31]+)')
end

local function batching()
  local released, list, held = 0, batch_list(), nil

  local function of(name)
    return list.parsed(redis.call('HGET', batches, name)) or { left = 0, done = 0, dead = 0, removed = 0, state = 'o',
      began = stamp, changed = stamp, finished = '0', listed = '0', callback = '', new = true }
  end

  -- The task is due after the delay that its push has named (its `wait`).
  local function release(id)
    local task = read(redis.call('HGET', meta, id) or '')
    if task and tonumber(redis.call('ZSCORE', delayed, id) or '0') >= UNTIL_OPENED then
      local ms = tonumber(task.wait)
      task.wait = string.format('%.0f', math.max(now - task.enqueued, 0) + ms)
      task.options = string.gsub(task.options, '\27\1[^\23-\31]*', '')
      redis.call('HSET', meta, id, write(task))
      redis.call('ZADD', delayed, now + ms, id)
      notice(ms)
      released = released + 1
    end
  end

  local function keep(name, batch)
    batch.changed = stamp
    if held then
      held[name] = true
    elseif tonumber(batch.left) == 0 then
      if batch.state == 's' then
        batch.state, batch.finished = 'f', stamp
        release(batch.callback)
      end
      list.add(name, batch)
    end
    list.write(name, batch)
    if batch.listed == '1' then
      list.prune(2)
    end
  end

  local function count(name, from, to, n)
    local batch = name and of(name)
    if batch and not (from and batch.new) then
      if from then
        batch[from] = math.max(batch[from] - (n or 1), 0)
      end
      batch[to] = batch[to] + (n or 1)
      keep(name, batch)
    end
  end

  local function seal(name, id)
    local batch = of(name)
    if id ~= '' and batch.callback == '' then
      batch.callback = id
      if batch.state == 'f' then -- it was finished without a task that waits
        release(id)
      end
    end
    batch.state = batch.state == 'o' and 's' or batch.state
    keep(name, batch)
  end

  local function hold()
    held = held or {}
  end

  local function settle()
    local names = held
    held = nil
    for name in pairs(names) do
      keep(name, of(name))
    end
  end

  local function take_released()
    local n = released
    released = 0
    return n
  end

  local made = { of = of, release = release, keep = keep, count = count, seal = seal, take_released = take_released,
    hold = hold, settle = settle }
  batching = function()
    return made
  end
  return made
end
