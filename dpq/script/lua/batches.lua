-- batches: read batches. It changes nothing.
--
-- Keys: batches
-- ARGV[1]  cursor     "0" to begin to read all of them; "" for those that are named
-- ARGV[2..]           names
--
-- Returns {next cursor ("0" at the end), name, text, name, ...}. The text is that of the file batches in lib, or "" for
-- an unknown batch. Two pages may name the same batch. Names that begin with a TAB are entries of the list.
-- Lost reply: safe to send again.

-- Needs: scan
if cursor ~= '' then
  local page = scan('HSCAN', batches, cursor, '500')
  table.insert(page[2], 1, page[1])
  return page[2]
end
local reply = { '0' }
for i = 2, #args do
  reply[2 * i - 2], reply[2 * i - 1] = args[i], redis.call('HGET', batches, args[i]) or ''
end
return reply
