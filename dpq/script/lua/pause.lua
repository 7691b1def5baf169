-- pause: pause the queue, for a time or until it is resumed. Or resume it: end the pause, and the closing by a 429.
--
-- Keys: conf wake tick events changes
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  ms         from now until the end of the pause; "inf": until the queue is resumed; 0: resume it
-- ARGV[3]  by         the person or program that does so, for the event; "" if it is not known
--
-- Returns 1.
-- Lost reply: safe to send again; the time then counts from the second call.

-- Needs: now, go_on, event
go_on()
by = by ~= '' and 'by ' .. by or ''
if ms == '0' then
  local paid = string.match(redis.call('HGET', conf, 'queue_gate') or '', '^%S+ [lh] %S+ (.*)$')
  if paid then -- a 429 has closed the queue
    redis.call('HSET', conf, 'queue_gate', '0 - - ' .. paid)
  end
  redis.call('HDEL', conf, 'paused_until', 'shut_until')
  tell_change('resumed', '', by)
else
  local until_ms = ms == 'inf' and ms or string.format('%.0f', now + ms)
  redis.call('HSET', conf, 'paused_until', until_ms)
  by = by ~= '' and by .. ', ' or ''
  tell_change('paused', '', by .. 'until ' .. (ms == 'inf' and 'it is resumed' or until_ms))
end
redis.call('ZADD', wake, '0', 'w')
redis.call('ZADD', tick, '0', 'w')
return 1
