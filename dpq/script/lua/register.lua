-- register: make a queue known to daemons and to the CLI.
--
-- Keys: queues queues_tick
-- ARGV[1]  name
--
-- Returns 1 if the name is new in the list, else 0; 0 at full memory, too: the next client registers the queue.
-- Lost reply: safe to send again.

if redis.call('SISMEMBER', queues, name) == 1 then -- a user with read rights gets here, too
  return 0
end
local added = redis.pcall('SADD', queues, name)
if not tonumber(added) then -- full memory must not keep a worker from its queue
  return string.find(added.err, 'OOM', 1, true) and 0 or added
end
redis.pcall('ZADD', queues_tick, '0', 'w') -- all queues share this key: if it is damaged, first pushes must go on
return 1
