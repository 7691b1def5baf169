-- follow: let pushed tasks wait for the tasks that their option `after` names.
-- Needs: record, notes, followed
-- Gives: for the variables of push with these names:
--        find_waits(ids, options, known, holders), which gives each new task that is to wait its note, and sets
--        `waits` in its options. It returns the reply of push if a task cannot wait for a task, or nil;
--        link(ids, options), to be called once these tasks are stored.
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
