-- survey: read the values that a page about a queue shows beside its counts. It changes nothing.
--
-- Keys: closed conf limits groups delayed
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns texts: now, ms; until when the queue is paused, "", "inf" or ms; how many groups are closed; when the first
-- of them opens, ms, or ""; how many limits are set, without the queue's; how many groups have a ready task; when the
-- next delayed task is due, ms, or ""; order; fairness; partitions; storage format.
-- Lost reply: safe to send again.
local time = ARGV[1]

-- Needs: now
local names = { 'paused_until', 'order', 'fairness', 'partition_count', 'format' }
local paused, order, fairness, partitions, format = unpack(redis.call('HMGET', conf, unpack(names)))
local held = paused == 'inf' or (tonumber(paused or '') or 0) > now
return { stamp, held and paused or '', string.format('%.0f', redis.call('ZCARD', closed)),
  redis.call('ZRANGE', closed, '0', '0', 'WITHSCORES')[2] or '', string.format('%.0f', redis.call('HLEN', limits)),
  string.format('%.0f', redis.call('HLEN', groups)), redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2] or '',
  order or 'fifo', fairness or 'none', partitions or '1', format or '' }
