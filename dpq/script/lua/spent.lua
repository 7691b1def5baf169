-- spent: store the units that a delivery has spent. In all windows of these units they replace the units that the
-- delivery was charged.
--
-- Keys: ready invisible waiting groups closed meta dead conf wake tick limits gates tracked cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  report     the units, as "tokens=812,=1"; the unit without a name is requests
--
-- Returns 1; 0 if an earlier call has stored all these units for this delivery; -1 or -13 as fence does. Then nothing
-- has changed.
-- Lost reply: safe to send again, the second answer is 0.

-- Needs: now, record, fence, place, true_up, refusal, go_on
local refused = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
end
local task
task, refused = fence(id, token, '')
if not task then
  return refused
end
if not true_up(task, report) then
  return 0
end
go_on()
redis.call('HSET', meta, id, write(task))
admit()
return 1
