-- drop: remove the whole queue, with its tasks, settings and totals.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers history events trail batches followers cancelled results progress errors recent
--
-- Returns how many keys of the queue were stored.
-- Lost reply: safe to send again.
return redis.call('UNLINK', ready, delayed, invisible, waiting, groups, closed, payload, meta, dead, keys,
  conf, stats, wake, tick, workers, history, events, trail, batches, followers, cancelled, results, progress, errors,
  recent, limits, gates, tracked)
