-- check_batches: list the tasks of batches, a page at a time, to compare their number with what a batch counts.
--
-- Keys: meta dead conf
-- ARGV[1]  cursor     "0" to begin
-- ARGV[2]  most       tasks to look at, about
--
-- Returns {next cursor ("0" at the end), id, batch, kind, id, ...}. The kind is dead or left. Two pages may name the
-- same task.
-- Lost reply: safe to send again.

-- Needs: refusal, notes, scan
local refused = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
end
local page = scan('HSCAN', meta, cursor, most)
local reply = { page[1] }
for i = 1, #page[2], 2 do
  local id, batch = page[2][i], string.match(page[2][i + 1], OF_BATCH)
  if batch then
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = id, batch, redis.call('ZSCORE', dead, id) and 'dead' or 'left'
  end
end
return reply
