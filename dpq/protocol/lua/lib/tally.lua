-- tally: count what a queue holds, and read its totals.
-- Keys: ready delayed invisible waiting dead stats
-- Needs: oldest, counts
-- Gives: tally(), which returns 16 numbers: how many tasks are ready, delayed, invisible, waiting and dead; then
--        oldest_ready; and the totals of stats in the order below. Behind them field, count, ... of each bucket in use
--        (times), "w" and "r", of all runs.
local function tally()
  local numbers = {}
  for i, set in ipairs({ ready, delayed, invisible, waiting, dead }) do
    numbers[i] = redis.call('ZCARD', set)
  end
  numbers[6] = oldest_ready()
  local names = { 'pushed', 'popped', 'acked', 'failed', 'deferred', 'expired_leases', 'buried', 'replayed', 'dropped',
    'rate_limited' }
  local waits, first = counts_of('w')
  local runs, done = counts_of('r')
  local more = { popped = first, acked = done }
  for i, text in ipairs(redis.call('HMGET', stats, unpack(names))) do -- it holds copies of all limits, too
    local count = #(text or '') <= 15 and string.match(text or '', '^-?%d+$') -- else it is damage
    numbers[6 + i] = math.max((count or 0) + (more[names[i]] or 0), 0)
  end
  for bucket, count in pairs((counts_of('f'))) do
    runs[bucket] = (runs[bucket] or 0) + count
  end
  for bucket = 0, 27 do
    for letter, counts in pairs({ w = waits, r = runs }) do
      if counts[bucket] then
        numbers[#numbers + 1], numbers[#numbers + 2] = letter .. bucket, counts[bucket]
      end
    end
  end
  return numbers
end
