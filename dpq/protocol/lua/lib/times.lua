-- times: count how long tasks have waited or run, in buckets of 1, 2.5 and 5 times each power of ten, from 1 ms to 5e8.
-- Keys: stats
-- Gives: count_time(ms); store_times(letter), which adds all that was counted to the fields `letter` and the number of
--        the bucket: "w" for waits, "r" for runs. Layout: docs/design.md, "Times".
local counted = {}

local function count_time(ms)
  local bucket = 0
  if ms > 1 then
    local decade = math.floor(math.log10(ms))
    local lead = ms / 10 ^ decade
    bucket = math.min(27, 3 * decade + (lead > 5 and 3 or lead > 2.5 and 2 or lead > 1 and 1 or 0))
  end
  counted[bucket] = (counted[bucket] or 0) + 1
end

local function store_times(letter)
  for bucket, count in pairs(counted) do
    redis.pcall('HINCRBY', stats, letter .. bucket, count)
  end
end
