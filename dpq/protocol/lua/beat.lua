-- beat: a worker says that it lives, or that it ends. Those that have not been seen for long are forgotten.
--
-- Keys: workers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id         of the worker
-- ARGV[3]  age        ms that it has been running
-- ARGV[4]  about      running, concurrency, pid TAB host TAB name; "" when it ends
-- ARGV[5]  forget     ms after which one that was not seen is forgotten
--
-- Returns 1. A few of the others are looked at by chance: each worker tells of itself as often, so as many
-- are looked at as there are. The key ends by itself when no worker is left to forget the last one.
-- Lost reply: safe to send again; it was then seen at the second call.
local time, id, age, about, forget = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])

-- Needs: now
redis.pcall('HDEL', workers, '') -- as go_on
if about == '' then
  redis.call('HDEL', workers, id)
else
  redis.call('HSET', workers, id, stamp .. string.format(' %.0f ', now - age) .. about)
  redis.call('PEXPIRE', workers, forget)
end
local drawn = redis.call('HRANDFIELD', workers, 10, 'WITHVALUES') or {}
for i = 1, #drawn, 2 do
  local seen = tonumber(string.match(drawn[i + 1], '^%d+') or 0)
  if seen + forget <= now then
    redis.call('HDEL', workers, drawn[i])
  end
end
return 1
