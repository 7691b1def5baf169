-- _notice: whoever adds to delayed, invisible or closed says so. Keeps conf's `next_event`, before which
-- no upkeep can be due, and tells one waiting consumer and one daemon of what comes before they look
-- again by themselves, which they do every 5 s.
-- Wants: now, conf, wake, tick. Gives: notice(ms), for an event `ms` from now.
local function notice(ms)
  local known = tonumber(redis.call('HGET', conf, 'next_event') or '')
  if not known or now + ms < known then
    redis.call('HSET', conf, 'next_event', string.format('%.0f', now + ms))
  end
  if ms < 5000 then
    redis.call('ZADD', wake, '0', 'w')
    redis.call('ZADD', tick, '0', 'w')
  end
end
