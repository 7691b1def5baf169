-- _draw: the next places of the queue. A sequence that is damaged begins again at the time: behind all.
-- Wants: now. Gives: draw(hash, field, count), the place before the first of so many.
local function draw(hash, field, count)
  local reached = redis.pcall('HINCRBY', hash, field, count)
  if not tonumber(reached) or reached < count or reached > 9e14 then
    reached = now + count
    redis.call('HSET', hash, field, string.format('%.0f', reached))
  end
  return reached - count
end
