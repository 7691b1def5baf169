-- bury: make a task a dead letter now. If it was pushed again with `rerun` while it ran, it begins anew instead.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked events changes batches followers cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id         "" for the one event of many tasks: nothing else is done
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  reason     why the task is buried, a single line; with id "", the detail of the event
-- ARGV[5]  report     the units that the delivery has spent, as in spent; "" for none; or left out
-- ARGV[6]  priority   as text, for its replay; "" to keep it; or left out
-- ARGV[7]  residual   what the double of the priority lost; or left out
-- ARGV[8]  source     where the error comes from, as in tell_error; ""; or left out
-- ARGV[9]  told       "" for one task of many, which has no event; with id "", the name of who has acted; or left out
--
-- Returns 1; or 0, -1 or -13 as fence does, and nothing has changed.
-- Lost reply: safe to send again, the second answer is 0. The event of many is then added twice.

-- Needs: now, record, rank, fence, place, bury, begin, times, producers, event
if id == '' then
  tell_change('by_hand', '', reason, 'by', told)
  return 1
end
local task, refused = fence(id, token, 'b')
if not task then
  return refused
end
if (report or '') ~= '' then
  -- Needs: true_up
  true_up(task, report)
end
leave(id, task)
set_priority(task, priority, residual)
count_time(token, 1000)
store_times('f')
if told ~= '' then
  tell_error(task.again == '0' and 'dead' or 'failed', id, task, reason, source)
end
task.delivery = 'b'
local wait = run_again(task)
if wait then
  redis.call('HSET', meta, id, write(task))
  put_back(id, task, wait, true)
else
  bury(id, task, reason, true)
end
admit()
call_all({ [''] = true, [task.group] = true })
return 1
