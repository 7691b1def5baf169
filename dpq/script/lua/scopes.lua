-- scopes: list the groups that have a limit or are closed, a page at a time.
--
-- Keys: closed limits
-- ARGV[1]  part       "limits", or "closed", the closed groups
-- ARGV[2]  cursor     "0" to begin
--
-- Returns {next cursor, or "0" at the end, name, ...}. A page may name a group twice.
-- Lost reply: safe to send again.

-- Needs: scan
local set = part == 'limits' and limits or closed
local page = scan(set == closed and 'ZSCAN' or 'HSCAN', set, cursor, '200')
local reply = { page[1] }
for i = 1, #page[2], 2 do
  reply[#reply + 1] = page[2][i]
end
return reply
