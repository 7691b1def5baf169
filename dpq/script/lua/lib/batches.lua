-- batches: count what becomes of the tasks of batches, and release the task that waits for the end of a batch. A batch
-- is a text: "left done dead removed state began changed finished listed callback". The first four are numbers of
-- tasks. The state is o (open), s (sealed) or f (finished). The moments are ms. The callback is the id of the task that
-- waits, or "". If no task of a batch is left, the batch stands in the list (batch_list). docs/storage.md, "Batches".
-- Needs: now, notice, record, batch_list
-- Gives: count_in_batch(name, from, to, n): n tasks (1 if it is nil) go from one number of a batch to another, by the
--          names of these numbers. If `from` is nil the tasks are new, and so may be the batch; else an unknown batch
--          stays so. If the name is nil, it does nothing.
--        seal_batch(name, id): once no task is left, the batch is finished, and task `id` is released, unless it is "".
--        release_waiting(id), which lets a task that waits for a batch be due.
--        batch_of(name), the batch as a table; if it is unknown, it is new, and `new` is set.
--        keep_batch(name, batch), which stores a batch, and finishes it if that is due.
--        hold_batches() and settle_batches(): between them tasks may come and go, and no batch is finished.
--        released, how many tasks were released in this script.
local released = 0
local unsettled

local function batch_of(name)
  return read_batch(redis.call('HGET', batches, name)) or { left = 0, done = 0, dead = 0, removed = 0, state = 'o',
    began = stamp, changed = stamp, finished = '0', listed = '0', callback = '', new = true }
end

-- The task is due after the delay that its push has named (its `wait`).
local function release_waiting(id)
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

local function keep_batch(name, batch)
  batch.changed = stamp
  if unsettled then
    unsettled[name] = true
  elseif tonumber(batch.left) == 0 then
    if batch.state == 's' then
      batch.state, batch.finished = 'f', stamp
      release_waiting(batch.callback)
    end
    list_batch(name, batch)
  end
  write_batch(name, batch)
  if batch.listed == '1' then
    prune_batches(2)
  end
end

local function count_in_batch(name, from, to, n)
  local batch = name and batch_of(name)
  if batch and not (from and batch.new) then
    if from then
      batch[from] = math.max(batch[from] - (n or 1), 0)
    end
    batch[to] = batch[to] + (n or 1)
    keep_batch(name, batch)
  end
end

local function seal_batch(name, id)
  local batch = batch_of(name)
  if id ~= '' and batch.callback == '' then
    batch.callback = id
    if batch.state == 'f' then -- it was finished without a task that waits
      release_waiting(id)
    end
  end
  batch.state = batch.state == 'o' and 's' or batch.state
  keep_batch(name, batch)
end

local function hold_batches()
  unsettled = unsettled or {}
end

local function settle_batches()
  local names = unsettled
  unsettled = nil
  for name in pairs(names) do
    keep_batch(name, batch_of(name))
  end
end
