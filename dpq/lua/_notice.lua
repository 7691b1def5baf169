-- _notice: tells one waiting consumer and one daemon of an event that comes before they look again by
-- themselves, which they do every 5 s.
-- Wants: wake, tick. Gives: notice(ms), for an event `ms` from now.
local function notice(ms)
  if ms < 5000 then
    redis.call('ZADD', wake, 0, 'w')
    redis.call('ZADD', tick, 0, 'w')
  end
end
