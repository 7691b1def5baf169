-- drop: remove the whole queue, with its tasks, settings and totals.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers history events changes batches followers cancelled results progress
--       recent
--
-- Returns how many keys of the queue were stored.
-- Lost reply: safe to send again.
-- WAIT waits for what its connection has written: so this writes also if an earlier call has removed all.
local made = redis.call('EXISTS', stats) == 0 and tonumber(redis.pcall('HINCRBY', stats, 'pushed', 0)) and 1 or 0
return -made + redis.call('UNLINK', ready, delayed, invisible, waiting, groups, closed, payload, meta, dead, keys,
  conf, stats, wake, tick, workers, history, events, changes, batches, followers, cancelled, results, progress,
  recent, limits, gates, tracked)
