-- fail: count a failed attempt. The task comes back later. If its attempts are spent, it becomes a dead letter; a
-- recurring task waits for its next time instead, and a task that was pushed again (`rerun`) begins anew.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked events batches followers cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease; for a cron task with a line and times, as in ack
-- ARGV[4]  ms         number: from now until the next attempt
-- ARGV[5]  message    the last error, or ""
-- ARGV[6]  report     the units that the delivery has spent, as in spent; "" for none; or left out
-- ARGV[7]  priority   as text, or "" to keep it; or left out
-- ARGV[8]  residual   what the double of the priority lost; or left out
-- ARGV[9]  source     where the error comes from, as in tell_error; or left out
--
-- Returns 1; or 0, -1 or -13 as fence does, and nothing has changed. So it is with
-- "ms TAB schedule", as ack has it: a cron task has spent its attempts, and none of its times is late enough.
-- Lost reply: safe to send again, the second answer is 0.

local claim = token
token = string.match(token, '^%d*')

-- Needs: now, record, rank, fence, place, bury, begin, times, event
local task, refused = fence(id, token, 'f')
if not task then
  return refused
end
local counts = task.delivery == '-' or task.delivery == 'd' -- else the attempt was counted when the lease ended
local spent, at, after = task.attempts + (counts and 1 or 0) >= tonumber(task.max), nil, nil
if spent and task.schedule ~= '' and task.again == '0' then
  at, after = next_due(task, claim)
  if not at then
    return after .. task.schedule
  end
end
if (report or '') ~= '' then
  -- Needs: true_up
  true_up(task, report)
end
leave(id, task)
set_priority(task, priority, residual)
count_time(token, 1000)
store_times('f')
redis.pcall('HINCRBY', stats, 'failed', 1)
tell_error('failed', id, task, message, source)
if at then
  ms = start_over(task, at)
  task.token = token -- so that the same call, sent again, finds its work done
elseif counts then
  task.attempts = task.attempts + 1
end
local wait = spent and run_again(task)
task.delivery, task.error = 'f', message
if wait then
  ms = wait
elseif spent and not at then
  -- Needs: producers
  bury(id, task, 'attempts spent')
  admit()
  call_all({ [''] = true, [task.group] = true })
  return 1
end
redis.call('HSET', meta, id, write(task))
put_back(id, task, ms)
admit()
return 1
