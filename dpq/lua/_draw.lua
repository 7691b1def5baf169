-- _draw: the next places of the queue. A sequence that is damaged begins again at the time: behind all.
-- Wants: now, fresh, how many; settings, stats, conf. Sets place, the last one before them.
local function draw(hash, field)
  local reached = redis.pcall('HINCRBY', hash, field, fresh)
  if not tonumber(reached) or reached < fresh or reached > 9e14 then
    reached = now + fresh
    redis.call('HSET', hash, field, string.format('%.0f', reached))
  end
  place = reached - fresh
end
draw(stats, 'pushed')
if settings[5] == 'round_robin' then
  draw(conf, 'turns')
end
