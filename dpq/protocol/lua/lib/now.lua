-- now: the one clock.
-- Wants: time, ms as an integer, or "" for the server's clock.
-- Gives: now, whole ms; instant, the same with its fraction; stamp, now as text (a number as an argument costs Redis
--        0.2 us).
local function server_clock()
  local parts = redis.call('TIME')
  return parts[1] * 1000 + parts[2] / 1000
end

local instant = tonumber(time) or server_clock()
local now = math.floor(instant)
local stamp = string.format('%.0f', now)
