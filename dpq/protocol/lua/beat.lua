-- beat: store the heartbeat of a worker, or its end. Remove workers without a heartbeat for long.
--
-- Keys: workers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id         of the worker
-- ARGV[3]  age        ms that it has been running
-- ARGV[4]  about      running, concurrency, pid TAB host TAB name; "" when it ends
-- ARGV[5]  forget     ms without a heartbeat after which a worker is removed
-- ARGV[6]  doing      leases that it holds, ms of its longest running handler (-1 for none), id of that task ("-" for
--                     none), TAB, the tokens of its leases, each with ":" and its partition if that is not the first;
--                     "" when it holds nothing
--
-- Returns 1. Each call checks a few other workers, chosen at random: all workers beat equally often, so all get
-- checked. The key expires by itself if no worker is left to remove the last one.
-- Lost reply: safe to send again; the second call's time then counts.
local time, id, age, about, forget = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local doing = ARGV[6]

-- Needs: now
redis.pcall('HDEL', workers, '') -- as go_on
local more = id .. '\t' -- a field of its own, which an older DPQ passes over, and removes in its time
if about == '' or doing == '' then
  redis.call('HDEL', workers, more)
end
if about == '' then
  redis.call('HDEL', workers, id)
else
  redis.call('HSET', workers, id, stamp .. string.format(' %.0f ', now - age) .. about)
  if doing ~= '' then
    redis.call('HSET', workers, more, stamp .. ' ' .. doing)
  end
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
