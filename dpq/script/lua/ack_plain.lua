-- ack_plain: remove a finished task, if there is nothing to decide. It is the short way of ack.
--
-- Keys: invisible closed meta stats gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
--
-- Returns {} as ack does. {-5}: the caller is to call ack, and nothing has changed. This is the reply if the task is
-- gone; if another delivery has it; if it has no short record with its payload behind it (record); if its lease has
-- ended; if the queue counts leases itself, or producers wait for room; and if the group of the task is
-- closed, or its gate holds more than grants.
-- Lost reply: the second call finds the task gone, and so does ack.
local time, id, token = ARGV[1], ARGV[2], ARGV[3]

-- Needs: now, times, claims, layout
local there = redis.call('EXISTS', tracked)
local raw = redis.call('HGET', meta, id)
local claim, at = string.match(raw or '', SHORT_CLAIM)
if claim ~= token or not string.find(raw, '\n', at, true) then
  return { -5 }
end
local lease
if there > 0 then
  local group = string.match(raw, GROUP)
  local text = group ~= '' and redis.call('HGET', gates, group)
  if redis.call('ZRANGEBYLEX', tracked, '[\t', '(\n', 'LIMIT', '0', '1')[1]
    or redis.call('ZRANGEBYLEX', tracked, '[\14', '(\15', 'LIMIT', '0', '1')[1] or group ~= '' and
    redis.call('ZSCORE', closed, group) or text and (string.byte(text) ~= 45 or string.find(text, ' B:', 1, true)) then
    return { -5 }
  end
  lease = group ~= '' and group .. '\t' .. id
end
if redis.call('ZREM', invisible, id) == 0 then
  return { -5 }
end
redis.call('HDEL', meta, id)
if lease then
  redis.call('ZREM', tracked, lease)
end
count_time(string.sub(token, 1, -3), 10)
store_times('r')
return {}
