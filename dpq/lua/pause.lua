-- pause: stop handing out tasks, for a time or until resume; or go on, and end what a 429 has closed.
--
-- KEYS[1]  conf       HASH    settings
-- KEYS[2]  wake       ZSET    the marker that waiting consumers block on
-- KEYS[3]  tick       ZSET    the marker that daemons block on
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  ms         from now, "inf" until resume, 0 to resume
--
-- Returns 1.
-- Lost reply: safe to send again; the time then counts from the second call.
local conf, wake, tick = KEYS[1], KEYS[2], KEYS[3]
local now, ms = ARGV[1], ARGV[2]

-- @include _now
if ms == '0' then
  local paid = string.match(redis.call('HGET', conf, 'queue_gate') or '', '^%S+ [lh] %S+ (.*)$')
  if paid then -- a 429 has closed the queue
    redis.call('HSET', conf, 'queue_gate', '0 - - ' .. paid)
  end
  redis.call('HDEL', conf, 'paused_until', 'shut_until')
else
  redis.call('HSET', conf, 'paused_until', ms == 'inf' and ms or string.format('%.0f', now + ms))
end
redis.call('ZADD', wake, '0', 'w')
redis.call('ZADD', tick, '0', 'w')
return 1
