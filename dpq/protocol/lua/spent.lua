-- spent: a delivery tells what it has spent. That replaces what it was charged, in all windows of these units.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  told       units, as in "tokens=812,=1"; "" names requests
--
-- Returns 1; 0 if this delivery has told all these units before (nothing changed); -1 if its token is not the live one,
-- or it has ended (nothing changed).
-- {-8, ...}: the client knows another format (refusal).
-- Lost reply: safe to send again, the second answer is 0.
local time, id, token, told = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Needs: now, record, fence, place, true_up, refusal, go_on
local refused = refusal(redis.call('HGET', conf, 'format'), nil, '0')
if refused then
  return refused
end
local task
task, refused = fence(id, token, '')
if not task then
  return refused
end
if not true_up(task, told) then
  return 0
end
go_on()
redis.call('HSET', meta, id, write(task))
admit()
return 1
