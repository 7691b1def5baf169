-- times: count how long tasks have waited or run, in buckets of 1, 2.5 and 5 times each power of ten, from 1 ms to 5e8.
-- Keys: stats
-- Needs: now
-- Gives: count_time(since, unit, base), for a moment as text, so many units a ms, in that base or 10: a batch has few
--        of them, and to find one costs less than to read it; store_times(letter), which adds all that was counted to
--        the fields `letter` and the number of the bucket: "w" for waits until a first delivery, "r" for runs that an
--        ack has ended, "f" for other runs. They are totals as well: `acked` and `popped` hold only what is in no
--        bucket, so a task costs one HINCRBY. docs/design.md, "Times".
local counted, bucket_of = {}, {}

local function count_time(since, unit, base)
  local bucket = bucket_of[since]
  if bucket then
    counted[bucket] = counted[bucket] + 1
    return
  end
  local ms = instant - (tonumber(since, base) or 0) / unit
  bucket = 0
  while ms > 10 and bucket < 24 do -- exact: log10 and ^ are not, and cost more
    ms, bucket = ms / 10, bucket + 3
  end
  bucket = bucket + (ms > 5 and 3 or ms > 2.5 and 2 or ms > 1 and 1 or 0)
  bucket_of[since], counted[bucket] = bucket, (counted[bucket] or 0) + 1
end

local function store_times(letter)
  for bucket, count in pairs(counted) do
    redis.pcall('HINCRBY', stats, letter .. bucket, count == 1 and '1' or count)
  end
end
