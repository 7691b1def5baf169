-- absent: check that no key of a queue is stored.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers
--
-- Returns 1 if no key is stored (of its first partition), else 0.
-- Lost reply: safe to send again.

local there = redis.call('EXISTS', conf, meta, payload, stats, ready, delayed, invisible, waiting, groups, closed)
  + redis.call('EXISTS', dead, keys, wake, tick, limits, gates, tracked, workers)
return there == 0 and 1 or 0
