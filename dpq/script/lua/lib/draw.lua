-- draw: draw the next sequence numbers of the queue. If the stored sequence is damaged, it starts again at the time,
-- behind all others.
-- Needs: now
-- Gives: draw(hash, field, count), the number before the first of `count` numbers.
local function draw(hash, field, count)
  local reached = redis.pcall('HINCRBY', hash, field, count)
  if not tonumber(reached) or reached < count or reached > 9e14 then
    reached = now + count
    redis.call('HSET', hash, field, string.format('%.0f', reached))
  end
  return reached - count
end
