-- scopes: the names of what has a limit or is closed, a page at a time.
--
-- KEYS[1]  closed     ZSET    group -> opens, ms
-- KEYS[2]  limits     HASH    what is limited -> how
-- ARGV[1]  part       limits, or closed for groups
-- ARGV[2]  cursor     "0" to begin
--
-- Returns {next cursor, or "0" at the end, name, ...}; a page may name some twice.
-- Lost reply: safe to send again.
local closed, limits = KEYS[1], KEYS[2]
local part, cursor = ARGV[1], ARGV[2]

local hash = part == 'limits'
local page = redis.call(hash and 'HSCAN' or 'ZSCAN', hash and limits or closed, cursor, 'COUNT', '200')
local reply = { page[1] }
for i = 1, #page[2], 2 do
  reply[#reply + 1] = page[2][i]
end
return reply
