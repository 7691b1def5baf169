-- tied: push tasks of batches, and tasks that wait for a batch, or for the tasks that their option `after` names.
-- Needs: batches, record, notes, followed
-- Gives: for the variables of push with these names:
--        late_for_batch(ids, options, known), the reply of push if the batch of a task is finished, or nil. If a task
--        waits for a batch already, another such task counts as known: push does not add it;
--        find_waits(ids, options, known, holders), which gives each new task that is to wait its note, and sets
--        `waits` in its options. It returns the reply of push if a task cannot wait for a task, or nil;
--        join_batches(ids, options, known, holders), which counts the new tasks;
--        link(ids, options), to be called once the tasks are stored. It also seals the batches of the tasks that wait.
local function late_for_batch(ids, options, known)
  for i in ipairs(ids) do
    local option = not known[i] and options[i] or {}
    local name = option.batch or option.seals
    local batch = name and batch_of(name)
    if option.batch and batch.state == 'f' then
      return { -10, i, option.batch }
    end
    known[i] = known[i] or option.seals and batch.callback ~= ''
  end
end

local function join_batches(ids, options, known, holders)
  local new = {}
  for i in ipairs(ids) do
    local name = not known[i] and not holders[i] and options[i] and options[i].batch
    if name then
      new[name] = (new[name] or 0) + 1
    end
  end
  for name, n in pairs(new) do
    count_in_batch(name, nil, 'left', n)
  end
end

local function find_waits(ids, options, known, holders)
  local numbers = {}
  for i, id in ipairs(ids) do
    numbers[id] = i
  end

  -- Returns the id of the task to wait for, or nil if it has ended; and -11 or -12 if it cannot be.
  local function task_of(id, at)
    local n = numbers[id]
    if n and n >= at then
      return id, -12
    end
    id = n and holders[n] or id
    n = numbers[id]
    if n and not known[n] then -- it is new
      return id, options[n] and (options[n].every or options[n].cron) and -11
    end
    local raw = redis.call('HGET', meta, id)
    local task = read(raw or '')
    return raw and id, task and task.schedule ~= '' and -11
  end

  for i in ipairs(ids) do
    local option, waits = not known[i] and not holders[i] and options[i] or {}, {}
    for _, each in ipairs(option.after or {}) do
      local id, refused = task_of(each, i)
      if refused then
        return { refused, i, id }
      elseif id and not waits[id] then
        waits[#waits + 1], waits[id] = id, true
      end
    end
    if #waits > 0 then
      option.waits = waits
      option.notes = option.notes .. AFTER .. (option.on_dead == 'run' and 'r' or 'b') .. '\1'
        .. table.concat(waits, '\1')
    end
  end
end

local function link(ids, options)
  for i, id in ipairs(ids) do
    if options[i] and options[i].seals then
      seal_batch(options[i].seals, id)
    end
    for _, each in ipairs(options[i] and options[i].waits or {}) do
      local raw = redis.call('HGET', meta, each)
      local task = read(raw or '')
      if task and not string.find(task.options, FOLLOWED) then
        set_note(task, AFTER, '+' .. (note_of(task, AFTER) or ''))
        redis.call('HSET', meta, each, write(task))
      end
      redis.call('ZADD', followers, '0', each .. '\t' .. id)
      if not task or redis.call('ZSCORE', dead, each) then -- as if it died now
        end_followed(each, AFTER .. '+', 'dead')
      end
    end
  end
end
