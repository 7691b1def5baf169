-- cancel: remove a live task. If it is running, its holder hears of it (fence).
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf wake tick limits gates tracked
--       batches followers cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  key        the task's unique key, instead of the id; or ""
-- ARGV[4]  cancels    "0": not if the task is running; or left out
--
-- Returns 1; -2 if no live task has this id or key; -6 if the task is running, and is not to be cancelled then (nothing
-- changed).
-- Lost reply: the second call answers -2.

-- Needs: now, record, place, fence, batches, followed, notes, producers, trim
id = key ~= '' and redis.call('HGET', keys, key) or id
local task = read(redis.call('HGET', meta, id) or '')
if not task or redis.call('ZSCORE', dead, id) then
  return -2
elseif cancels == '0' and redis.call('ZSCORE', invisible, id) then
  return -6
end
note_cancelled(id, task)
leave(id, task)
redis.pcall('PUBLISH', 'dpq:calls:{' .. string.match(meta, '^dpq:{([^{}]*)') .. '}', id) -- as in keep_results
forget(id, task)
count_in_batch(string.match(task.options, OF_BATCH), 'left', 'removed')
end_followed(id, task.options, 'cancelled')
unfollow(id, task.options)
admit()
call_all({ [''] = true, [task.group] = true })
return 1
