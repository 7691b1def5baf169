-- cancelled: note that a delivery was cancelled while its holder may still work, so that the holder hears of it. The
-- note stays for an hour after the lease, at most for a day. At most 10 000 notes stay.
-- Needs: now, go_on
-- Gives: note_cancelled(id, task), to be called before the task leaves its set (place).
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
