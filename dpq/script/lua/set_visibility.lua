-- set_visibility: hide a task for a time. This delivery does not count as a failed attempt.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf stats wake tick limits gates tracked
--       cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  ms         number: from now until the task is visible
--
-- Returns 1; or -1 or -13 as fence does, and nothing has changed.
-- Lost reply: safe to send again. The time then counts from the second call; the deferral counts once.

-- Needs: now, record, fence, place
local task, refused = fence(id, token, '')
if not task then
  return refused
end
leave(id, task)
if count_deferral(task) then
  redis.call('HSET', meta, id, write(task))
end
put_back(id, task, ms)
admit()
return 1
