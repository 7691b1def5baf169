-- counts: read the totals that times stores as buckets.
-- Keys: stats
-- Gives: counts_of(letter), the count of each bucket in use, by its number; and the sum of all. The letters are those
--        of times.
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
