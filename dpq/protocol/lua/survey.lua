-- survey: read what a page about a queue shows beside its counts. Changes nothing.
--
-- Keys: closed conf limits groups delayed
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns {now, ms; until when the queue is paused: "", "inf" or ms; closed groups; when the first of them opens, ms,
-- or ""; limits that are set, but for the queue's; groups with a task that is ready; when the next delayed task is
-- due, ms, or ""; order; fairness; partitions; storage format}, as texts.
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
