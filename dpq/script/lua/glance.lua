-- glance: read the next moment of many queues in a single call. So a daemon steps only the queues that have work to do.
--
-- Keys: queues
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Each further key is `conf` of a queue. All keys are on the same server, which is no cluster.
-- Returns {names, ms, ms, ...}. `names`: how many names are in the list of queues; -1 if they cannot be counted. For
-- each conf follows the ms until its `next_event`; -1 if there is none; -2 if only a step (promote) can find it.
-- Lost reply: safe to send again.

local keys = KEYS

-- Needs: now
local reply = { tonumber(redis.pcall('SCARD', queues)) or -1 } -- an error is a table, and so no number
for i = 2, #keys do
  local conf = redis.pcall('HMGET', keys[i], 'format', 'next_event')
  local soonest, ms = conf[2] and tonumber(conf[2]), -1
  local unreadable = conf[2] and soonest ~= (soonest or 0) -- NaN, too
  if unreadable or conf[1] ~= '05' then
    ms = -2
  elseif soonest then
    ms = math.min(math.max(math.ceil(soonest - now), 0), 1000000000)
  end
  reply[i] = ms
end
return reply
