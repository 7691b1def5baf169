-- unregister: a queue is gone.
--
-- Keys: queues
-- ARGV[1]  name
--
-- Returns 1 when it was known, else 0.
-- Lost reply: safe to send again.
local name = ARGV[1]

return redis.call('SREM', queues, name)
