-- unregister: a queue is gone.
--
-- KEYS[1]  queues      SET   names
-- ARGV[1]  name
--
-- Returns 1 when it was known, else 0.
-- Lost reply: safe to send again.
local queues = KEYS[1]
local name = ARGV[1]

return redis.call('SREM', queues, name)
