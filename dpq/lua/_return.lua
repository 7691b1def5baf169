-- _return: a task that has left comes back, now or in `ms`; the script answers 1.
-- Wants: id, task, ms, wake; admit (_place); back (_back).
back(id, task, ms)
if admit() > 0 then
  redis.call('ZADD', wake, '0', 'w')
end
return 1
