-- _now: the one clock, in ms. Wants: now (ARGV[1]: an integer, or "" for the server's clock).
now = tonumber(now)
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
