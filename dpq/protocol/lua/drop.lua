-- drop: remove the whole queue: its tasks, settings and totals.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers history events trail
--
-- Returns how many keys there were.
-- Lost reply: safe to send again.
return redis.call('UNLINK', ready, delayed, invisible, waiting, groups, closed, payload, meta, dead, keys, conf, stats,
  wake, tick, limits, gates, tracked, workers, history, events, trail)
