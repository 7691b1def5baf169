-- release: give a task back. The attempt does not count, and the task keeps its order among equal priorities.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf wake tick limits gates tracked cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  ms         number: from now until the task is ready
-- ARGV[5]  priority   as text, or "" to keep it
-- ARGV[6]  residual   what the double of the priority lost
-- ARGV[7]  report     the units that the delivery has spent, as in spent; or left out
--
-- Returns 1; or 0, -1 or -13 as fence does, and nothing has changed.
-- Lost reply: safe to send again, the second answer is 0.

-- Needs: now, record, rank, fence, place
local task, refused = fence(id, token, 'r')
if not task then
  return refused
end
if report then
  -- Needs: true_up
  true_up(task, report)
end
leave(id, task)
task.delivery = 'r'
set_priority(task, priority, residual)
redis.call('HSET', meta, id, write(task))
put_back(id, task, ms)
admit()
return 1
