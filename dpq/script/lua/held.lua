-- held: list the leases of the running tasks, a page at a time.
--
-- Keys: invisible meta
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  cursor     "0" to begin
--
-- Returns {next cursor ("0" at the end), now (ms), id, lease end (ms), record without its payload, ...}. Two pages may
-- name the same task. A lease that lasts from the first page to the last stands on at least one page.
-- Lost reply: safe to send again.

-- Needs: now, scan
local page = scan('ZSCAN', invisible, cursor, '500')
local reply = { page[1], stamp }
for i = 1, #page[2], 2 do
  reply[#reply + 1] = page[2][i]
  reply[#reply + 1] = page[2][i + 1]
  reply[#reply + 1] = string.match(redis.call('HGET', meta, page[2][i]) or '', '^[^\n]*')
end
return reply
