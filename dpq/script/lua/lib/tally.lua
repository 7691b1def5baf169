-- tally: count what a queue holds, and read its totals.
-- Keys: ready delayed invisible waiting dead stats
-- Needs: now, past, oldest, counts, totals
-- Gives: tally(), which returns two tables. The first is {name = count} of all counts that are not 0, with the names of
--        totals: the tasks in each state (delayed tasks that are due, and tasks whose lease is over, are ready),
--        the totals, and oldest_ready if a task is ready. The second lists field, count, ... of each bucket in use
--        (times): "w" of waits, "r" of all runs.
local function tally()
  local counts, buckets = {}, {}
  for name, set in pairs({ ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead }) do
    counts[name] = redis.call('ZCARD', set)
  end
  -- No call may have moved what is due, as while all handlers are busy, or the queue is paused.
  local oldest = oldest_ready()
  for name, set in pairs({ delayed = delayed, invisible = invisible }) do
    local due = past(set)
    counts[name], counts.ready = counts[name] - due, counts.ready + due
    local first = due > 0 and redis.call('ZRANGE', set, '0', '0', 'WITHSCORES')[2]
    oldest = first and math.max(oldest, now - first) or oldest
  end
  local waits, first = counts_of('w')
  local runs, done = counts_of('r')
  local more, names = { popped = first, acked = done }, {}
  for i = 1, #TOTALS, 2 do
    names[#names + 1] = TOTALS[i]
  end
  for i, text in ipairs(redis.call('HMGET', stats, unpack(names))) do
    local count = #(text or '') <= 15 and string.match(text or '', '^-?%d+$') -- any other text is damage
    counts[names[i]] = math.max((count or 0) + (more[names[i]] or 0), 0)
  end
  local skipped = tonumber(redis.call('HGET', stats, 'skipped') or '') -- numbers of the sequence that an import skipped
  counts.pushed = math.max(counts.pushed - (skipped or 0), 0)
  for name, count in pairs(counts) do
    counts[name] = count ~= 0 and count or nil
  end
  counts.oldest_ready = oldest >= 0 and oldest or nil
  for bucket, count in pairs((counts_of('f'))) do
    runs[bucket] = (runs[bucket] or 0) + count
  end
  for letter, found in pairs({ w = waits, r = runs }) do
    for bucket, count in pairs(found) do
      buckets[#buckets + 1], buckets[#buckets + 2] = letter .. bucket, count
    end
  end
  return counts, buckets
end
