-- fence: let only the live delivery act. Only the first of fail, bury and release ends it.
-- Needs: now, go_on, record
-- Gives: fence(id, token, verb), which returns the task. Else it returns nil and the reply of the script: 0 if the same
--        verb was done before, -1 if the lease is lost, -13 if the task was cancelled. `verb` is the letter
--        that marks an ended delivery, or "";
--        count_deferral(task), which returns true if it is the first one of this delivery;
--        note_cancelled(id, task), to be called before a task leaves its set (place): it notes that a delivery was
--        cancelled while its holder may still work, so that the holder hears of it. The note stays for an hour after
--        the lease, at most for a day. At most 10 000 notes stay.
local function fence(id, token, verb)
  local raw = redis.call('HGET', meta, id)
  local task = raw and read(raw)
  if not raw and redis.call('ZSCORE', cancelled, token) then
    return nil, -13
  elseif not task or task.token ~= token or token == '0' then
    return nil, -1
  elseif task.delivery == verb then
    return nil, 0
  elseif string.find(task.delivery, '[fblr]') or redis.call('ZSCORE', dead, id) then
    return nil, -1
  end
  return task
end

local function count_deferral(task)
  local first = task.delivery == '-' or task.delivery == 'x'
  if first then
    task.delivery = task.delivery == '-' and 'd' or 'X'
    task.deferrals = task.deferrals + 1
    redis.pcall('HINCRBY', stats, 'deferred', 1)
  end
  return first
end

local function note_cancelled(id, task)
  if task.token == '0' or string.find(task.delivery, '[fblr]') then -- no delivery, or its holder has ended it
    return
  end
  local ends = tonumber(redis.call('ZSCORE', invisible, id) or 0) or 0
  go_on()
  local oldest = redis.call('ZRANGE', cancelled, 0, 1, 'WITHSCORES')
  local surplus = redis.call('ZRANGE', cancelled, 9999, 9999)
  for i = 1, #oldest, 2 do
    if surplus[1] or tonumber(oldest[i + 1]) <= now then
      redis.call('ZREM', cancelled, oldest[i])
    end
  end
  redis.call('ZADD', cancelled, math.min(math.max(ends, now) + 3600000, now + 86400000), task.token)
  redis.pcall('PEXPIRE', cancelled, 86400000) -- a user that may not do this leaves the notes to later calls
end
