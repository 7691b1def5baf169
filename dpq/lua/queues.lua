-- queues: the names of all queues on this server.
--
-- KEYS[1]  queues      SET   names
--
-- Returns the names.
-- Lost reply: safe to send again.
local queues = KEYS[1]

return redis.call('SMEMBERS', queues)
