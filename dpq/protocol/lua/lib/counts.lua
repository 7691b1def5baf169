-- counts: read the totals that times keeps as buckets.
-- Keys: stats
-- Gives: counts_of(letter), of times: what stands in each bucket that is in use, by its number; and the sum.
local function counts_of(letter)
  local fields, counts, sum = {}, {}, 0
  for bucket = 0, 27 do
    fields[bucket + 1] = letter .. bucket
  end
  for i, text in ipairs(redis.call('HMGET', stats, unpack(fields))) do
    local count = text and #text <= 15 and string.match(text, '^%d+$') -- else it is damage
    if count then
      counts[i - 1], sum = tonumber(count), sum + count
    end
  end
  return counts, sum
end
