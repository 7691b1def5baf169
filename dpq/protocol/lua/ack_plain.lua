-- ack_plain: remove a finished task, if there is nothing to decide. It is the short way of ack.
--
-- Keys: invisible meta stats tracked trail
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
--
-- Returns {} as ack does. {-5}: the caller is to call ack, and nothing has changed. This is the reply if the task is
-- gone; if another delivery has it; if it has no short record with its payload behind it (record); if its lease has
-- ended; and if the queue counts leases or has a trail.
-- Lost reply: the second call finds the task gone, and so does ack.
local time, id, token = ARGV[1], ARGV[2], ARGV[3]

-- Needs: claims
local raw = redis.call('EXISTS', tracked, trail) == 0 and redis.call('HGET', meta, id)
local claim, at = string.match(raw or '', SHORT_CLAIM)
if claim ~= token or not string.find(raw, '\n', at, true) or redis.call('ZREM', invisible, id) == 0 then
  return { -5 }
end
redis.call('HDEL', meta, id)
-- Needs: now, times
count_time(string.sub(token, 1, -3), 10)
store_times('r')
return {}
