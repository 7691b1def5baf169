-- glance: read the next moment of many queues in one call. So a daemon steps only those that have something to do.
--
-- Keys: queues
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..] partitions of the queue, as the client knows it, for each further key
--
-- Each further key is `conf` of a queue, or of one of its partitions. All keys are on one server that is no cluster.
-- Returns {names, ms, ms, ...}. `names`: how many names are in the list of queues; -1 if they cannot be counted. Then
-- for each conf the ms until its `next_event`; -1 if nothing is to come; -2 if only a step (promote) can tell.
-- Lost reply: safe to send again.
local keys = KEYS
local time, partitions = ARGV[1], ARGV

-- Needs: now
local reply = { tonumber(redis.pcall('SCARD', queues)) or -1 } -- an error is a table
for i = 2, #keys do
  local conf = redis.pcall('HMGET', keys[i], 'format', 'next_event', 'partition_count')
  local soonest, ms = conf[2] and tonumber(conf[2]), -1
  local unreadable = conf[2] and soonest ~= (soonest or 0) -- or NaN
  if unreadable or conf[1] ~= '01' or (conf[3] or '1') ~= partitions[i] then
    ms = -2
  elseif soonest then
    ms = math.min(math.max(math.ceil(soonest - now), 0), 1000000000)
  end
  reply[i] = ms
end
return reply
