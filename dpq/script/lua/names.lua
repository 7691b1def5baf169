-- names: list names of queues, for the nearest one to a misspelt name. It reads about 1000 names.
--
-- Keys: queues
-- ARGV[1]  cursor     "0" to begin
--
-- Returns {next cursor ("0" at the end), name, ...}, as texts.
-- Lost reply: safe to send again.

local page = redis.call('SSCAN', queues, cursor, 'COUNT', '1000')
table.insert(page[2], 1, page[1])
return page[2]
