-- upkeep: do one bounded step of upkeep: end leases that ran out, move tasks that are due, and open groups.
-- Needs: now, record, groups, open_or_close, ended, counted, place, bury, batches, followed, followers, moments, prune,
--        notes, event, begin
-- Gives: upkeep(most, quiet), which returns how many entries it has moved. If it has moved `most`, call it again.
--        `quiet` is as in admit (place).
local function upkeep(most, quiet)
  local before, records = most, {}
  local function due(set)
    local by = set == closed and string.format('%.17g', instant) or stamp
    local members = redis.call('ZRANGEBYSCORE', set, '-inf', by, 'LIMIT', '0', most)
    if #members > 0 then
      most = most - #members
      redis.call('ZREMRANGEBYRANK', set, 0, #members - 1)
      return members, set ~= closed and redis.call('HMGET', meta, unpack(members))
    end
    return members
  end

  local ids, raws = due(invisible)
  local watched = #ids > 0 and redis.call('EXISTS', tracked) == 1
  for i, id in ipairs(ids) do
    local task = raws[i] and read(raws[i])
    if task then
      if watched then
        ended({ id, task.group, live_note(task, RUNS_AS) or false }, true)
      end
      local spent = false
      if task.delivery == '-' or task.delivery == 'd' then
        tell_error('lease_expired', id, task, 'delivery ' .. task.deliveries)
        local bound, lapses = string.match(note_of(task, LAPSES) or '', '^(%d+) (%d+)$')
        if bound then
          set_note(task, LAPSES, string.format('%s %.0f', bound, lapses + 1))
          spent = lapses + 1 >= tonumber(bound) and 'lapses spent'
        else
          task.attempts = task.attempts + 1
        end
        task.delivery = task.delivery == '-' and 'x' or 'X'
      end
      spent = spent or tonumber(task.attempts) >= tonumber(task.max) and 'lease expired'
      local wait = spent and run_again(task, true)
      if wait then
        redis.call('HSET', meta, id, write(task))
        put_back(id, task, wait, true)
      elseif spent then
        bury(id, task, spent)
      else
        enter(id, task)
        records[#records + 1] = id
        records[#records + 1] = write(task)
      end
    elseif raws[i] then
      rescue(id, raws[i])
    end
  end
  if #ids > 0 then
    redis.pcall('HINCRBY', stats, 'expired_leases', #ids)
  end
  if #records > 0 then
    redis.call('HSET', meta, unpack(records))
  end

  repeat -- a death may release the task that waits for the end of a batch, and end what others wait for
    most = most - free_followers(most)
    ids, raws = due(delayed)
    local known = released
    for i, id in ipairs(ids) do
      local task = raws[i] and read(raws[i])
      if task then
        stirred[task.group] = unhold(id, task) or stirred[task.group]
        if task.expires ~= '0' and task.deliveries == '0' and tonumber(task.expires) <= now then
          bury(id, task, 'expired')
        else
          enter(id, task)
        end
      elseif raws[i] then
        rescue(id, raws[i])
      end
    end
  until released == known and followed.ended == 0 or most <= 0

  local emptied = 0
  for _, group in ipairs(due(closed)) do
    emptied = emptied + (succeed(group) and 0 or 1)
  end
  if emptied > 0 then
    prune(2 * emptied)
  end
  admit(quiet)
  if most > 0 then
    local soonest = next_event()
    if soonest then
      redis.call('HSET', conf, 'next_event', string.format('%.17g', soonest))
    else
      redis.call('HDEL', conf, 'next_event')
    end
  end
  return before - most
end
