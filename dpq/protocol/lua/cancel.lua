-- cancel: remove a live task. The holder of a running task finds it gone.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf wake tick limits gates tracked
--       trail
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  key        the task's unique key, instead of the id; or ""
--
-- Returns 1; -2 if no live task has this id or key (nothing changed).
-- Lost reply: the second call answers -2.
local time, id, key = ARGV[1], ARGV[2], ARGV[3]

-- Needs: now, record, place, trail
id = key ~= '' and redis.call('HGET', keys, key) or id
local task = read(redis.call('HGET', meta, id) or '')
if not task or redis.call('ZSCORE', dead, id) then
  return -2
end
leave(id, task)
note('cancelled', task.group, '', id, '')
redis.pcall('PUBLISH', 'dpq:calls:{' .. string.match(meta, '^dpq:{([^{}]*)') .. '}', id) -- as in keep_results
redis.call('HDEL', meta, id)
redis.call('HDEL', payload, id)
if task.key ~= '' then
  redis.call('HDEL', keys, task.key)
end
admit()
return 1
