-- remember: store what a queue counts and holds: once for each minute, and once for each quarter of an hour.
-- Keys: closed history workers
-- Needs: now, tally
-- Gives: remember(): 1 if it has stored, else 0. Both kinds of slots are rings, a day of minutes (m0 to m1439) and 14
--        days of quarters (q0 to q1343), so their number is bounded. Each begins with its moment. docs/design.md,
--        "History".
local function remember()
  local fields = { string.format('m%d', math.floor(now / 60000) % 1440),
    string.format('q%d', math.floor(now / 900000) % 1344) }
  local stored = redis.call('HMGET', history, unpack(fields))
  local function stands(slot, length)
    local at = tonumber(string.match(stored[slot] or '', '^%d+ ') or '')
    return at and math.floor(at / length) == math.floor(now / length)
  end
  if stands(1, 60000) then
    return 0
  end
  local numbers, texts = tally(), { stamp, redis.call('ZCARD', closed), redis.call('HLEN', workers) }
  for i, number in ipairs(numbers) do
    texts[i + 3] = tonumber(number) and string.format('%.0f', number) or number
  end
  local slot = table.concat(texts, ' ')
  redis.call('HSET', history, fields[1], slot)
  if not stands(2, 900000) then
    redis.call('HSET', history, fields[2], slot)
  end
  return 1
end
