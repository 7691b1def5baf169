-- merge: change the tasks that hold the keys of a push.
-- Needs: now, record, body, begin, revise, notes, batches, place, notice
-- Gives: merge_all(args, options, holders, reply), for the variables of push with these names. It does what
--        on_duplicate says (not for "error": push then changes nothing), and adds the holders to the reply.

-- A push with debounce has `debounce_max`, on_duplicate "rerun", and its debounce as delay. Returns the ms from now
-- until the holder is due, or nil if it keeps its time: it is due already, or waits for its retry.
local function debounced(id, task, option)
  local due = tonumber(redis.call('ZSCORE', delayed, id) or 0)
  if due > now and task.deliveries == '0' then
    return math.max(math.min(option.delay, task.enqueued + option.debounce_max - now), 0)
  end
  return (redis.call('ZSCORE', invisible, id) or redis.call('ZSCORE', dead, id)) and option.delay or nil
end

local function merge(id, option, body) -- returns true if it has changed the counts of a batch
  local counted, task = false, read(redis.call('HGET', meta, id) or '')
  if not task then
    return
  end
  local cost, wait, priority, residual, how = option.cost, option.delay, option.priority, option.residual,
    option.on_duplicate
  local most, expires = string.format('%d', option.max_attempts), expires_at(option)
  local died = redis.call('ZSCORE', dead, id)
  if how == 'raise_priority' then
    local old, new = tonumber(task.priority), tonumber(priority)
    if not died and (new > old or new == old and residual .. string.sub(task.order, -15) < task.order) then
      revise(id, task, priority, residual)
    end
  elseif how ~= 'keep' then
    task.inline = inline(body, redis.call('HGET', conf, 'payloads'))
    if task.inline == '' then
      redis.call('HSET', payload, id, body)
    else
      redis.call('HDEL', payload, id)
    end
    recost(task, cost)
    if option.debounce_max then
      wait = debounced(id, task, option)
    end
    local was, lapses = string.match(task.options, OF_BATCH), note_of(task, LAPSES)
    local ahead = note_of(task, AFTER)
    task.options = option.notes .. (string.match(task.options, '[\28\29].*$') or '') -- as in notes
    set_note(task, AFTER, ahead)
    if cost ~= '1' or option.member then
      redis.call('HSET', conf, 'heavy', '1')
    end
    if option.every or option.cron then
      task.schedule, wait, expires = begin(option, how == 'update' and not died and task.schedule)
      task.expires = wait and expires or task.expires
    elseif how == 'update' then
      task.schedule = ''
    end
    if task.schedule ~= '' then
      set_note(task, UNIQUE) -- a task that recurs keeps its key
    end
    local batch = task.schedule == '' and (option.batch or was) or nil
    if was or option.batch then
      hold_batches()
      counted = true
      local from = died and 'dead' or 'left'
      if was and was ~= batch then
        count_in_batch(was, from, 'removed')
      end
      if batch and (died or was ~= batch) then
        count_in_batch(batch, was == batch and from or nil, 'left')
      end
      set_note(task, BATCH, batch)
    end
    local running = how == 'rerun' and redis.call('ZSCORE', invisible, id)
    if running or died then -- the bound is that of the push
      local had = string.match(lapses or '', '%d+$') or '0'
      lapses = option.max_lapses and string.format('%d %s', option.max_lapses, had)
    end
    set_note(task, LAPSES, lapses)
    if running then
      task.again, task.max, task.expires = string.format('%.0f', now + wait), most, expires
    elseif died then
      renew(task, wait)
      task.max, task.expires = most, expires
    elseif how == 'rerun' then -- a late ack of the old payload must not remove the new one
      task.token, task.delivery, task.again = 0, '-', 0
    end
    local due = task.schedule == '' and string.match(task.options, WAITS) and redis.call('ZSCORE', delayed, id)
    if tonumber(due or 0) >= UNTIL_OPENED then -- it goes on waiting; the delay counts from the end of that
      task.wait, wait = wait or task.wait, nil
    end
    revise(id, task, priority, residual, wait)
  end
  return counted
end

local function merge_all(args, options, holders, reply)
  local counted = false
  for i = 1, (#args - 1) / 3 do
    if holders[i] then
      counted = merge(holders[i], options[i], args[3 * i + 1]) or counted
      admit() -- a later push of this batch may meet the same holder
      reply[#reply + 1] = i
      reply[#reply + 1] = holders[i]
    end
  end
  if counted then
    settle_batches()
  end
end
