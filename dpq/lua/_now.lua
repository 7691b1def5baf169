-- _now: the one clock. Wants: now (ARGV[1]: ms as an integer, or "" for the server's clock).
-- Gives: now, ms as a number; stamp, the same as text (a number as an argument costs Redis 0.2 us).
now = tonumber(now)
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local stamp = string.format('%.0f', now)
