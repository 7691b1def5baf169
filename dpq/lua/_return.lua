-- _return: a task that has left comes back, now or in `ms`; the script answers 1.
-- Wants: now, id, task, ms, delayed, wake; enter, admit (_place); notice (_notice).
if ms > 0 then
  redis.call('ZADD', delayed, now + ms, id)
  notice(ms)
else
  enter(id, task)
end
if admit() > 0 then
  redis.call('ZADD', wake, '0', 'w')
end
return 1
