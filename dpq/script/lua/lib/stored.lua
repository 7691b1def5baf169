-- stored: check that some key of a queue is stored, even if it is only a marker or a heartbeat.
-- Gives: anything_stored(), true if a key is stored;
--        only_markers(), which removes markers if nothing else is stored, since a pop may add a marker after a drop. It
--        returns true if then no key is left.
local function more_than_markers()
  return redis.call('EXISTS', conf, meta, payload, stats, ready, delayed, invisible, waiting, groups, closed) > 0
    or redis.call('EXISTS', dead, keys, workers, batches) > 0
    or redis.call('EXISTS', limits, gates, tracked) > 0
end

local function anything_stored()
  return more_than_markers() or redis.call('EXISTS', wake, tick) > 0
end

local function only_markers()
  if more_than_markers() then
    return false
  end
  redis.call('ZREM', wake, 'w', 'e')
  redis.call('ZREM', tick, 'w')
  return redis.call('EXISTS', wake, tick) == 0
end
