-- stored: check that some key of a queue is stored, be it a marker or a heartbeat only.
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers
-- Gives: anything_stored().
local function anything_stored()
  return redis.call('EXISTS', conf, meta, payload, stats, ready, delayed, invisible, waiting, groups, closed) > 0
    or redis.call('EXISTS', dead, keys, wake, tick, limits, gates, tracked, workers) > 0
end
