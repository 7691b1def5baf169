-- in_flight: list the groups of the running tasks, one page at a time.
--
-- Keys: invisible meta
-- ARGV[1]  cursor     "0" to begin
--
-- Returns {next cursor, or "0" at the end, group, ...}: one for each lease, "" for a task without a group.
-- Lost reply: safe to send again.
local cursor = ARGV[1]

local page = redis.call('ZSCAN', invisible, cursor, 'COUNT', '1000')
local reply = { page[1] }
for i = 1, #page[2], 2 do
  reply[#reply + 1] = string.match(redis.call('HGET', meta, page[2][i]) or '', '^[^\t\n]*\t([^\t\n]*)') or ''
end
return reply
