-- unregister: remove the name of a queue from the list of known queues.
--
-- Keys: queues
-- ARGV[1]  name
--
-- Returns 1 if the name was in the list, else 0.
-- Lost reply: safe to send again.

return redis.call('SREM', queues, name)
