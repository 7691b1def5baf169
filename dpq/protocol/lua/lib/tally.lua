-- tally: count what a queue holds, and read its totals.
-- Keys: ready delayed invisible waiting dead stats
-- Needs: oldest
-- Gives: tally(), which returns 16 numbers: how many tasks are ready, delayed, invisible, waiting and dead; then
--        oldest_ready; and the totals of stats in the order below. Behind them field, count, ... of each bucket in use
--        (times).
local function tally()
  local numbers = {}
  for i, set in ipairs({ ready, delayed, invisible, waiting, dead }) do
    numbers[i] = redis.call('ZCARD', set)
  end
  numbers[6] = oldest_ready()
  local names = { 'pushed', 'popped', 'acked', 'failed', 'deferred', 'expired_leases', 'buried', 'replayed', 'dropped',
    'rate_limited' }
  for bucket = 0, 27 do
    names[11 + 2 * bucket], names[12 + 2 * bucket] = 'w' .. bucket, 'r' .. bucket
  end
  local counts = redis.call('HMGET', stats, unpack(names)) -- it holds copies of all limits, too
  for i, name in ipairs(names) do
    local count = #(counts[i] or '') <= 15 and string.match(counts[i] or '', '^%d+$') -- else it is damage
    if i <= 10 then
      numbers[#numbers + 1] = tonumber(count or 0)
    elseif count then
      numbers[#numbers + 1], numbers[#numbers + 2] = name, tonumber(count)
    end
  end
  return numbers
end
