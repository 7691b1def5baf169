-- times: count how long tasks have waited or run. The buckets are 1, 2.5 and 5 times each power of ten, from 1 ms to
-- 5e8 ms.
-- Needs: now
-- Gives: count_time(since, unit, base), which counts the time since a moment. The moment is a text in that base, or 10;
--        `unit` is the number of its units in a ms. A batch has few different texts, and to find one costs less than to
--        read it;
--        store_times(letter), which adds all counts to the fields of the letter and the number of the bucket. "w" is
--        for waits until a first delivery, "r" for runs that an ack has ended, "f" for other runs. These counts are
--        totals as well: `acked` and `popped` hold only what is in no bucket. So a task costs one HINCRBY.
--        docs/design.md, "Times";
--        counts_of(letter), the count of each bucket in use, by its number; and the sum of all.
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

local function counts_of(letter)
  local fields, counts, sum = {}, {}, 0
  for bucket = 0, 27 do
    fields[bucket + 1] = letter .. bucket
  end
  for i, text in ipairs(redis.call('HMGET', stats, unpack(fields))) do
    local count = text and #text <= 15 and string.match(text, '^%d+$') -- any other text is damage
    if count then
      counts[i - 1], sum = tonumber(count), sum + count
    end
  end
  return counts, sum
end
