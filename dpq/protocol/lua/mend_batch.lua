-- mend_batch: correct what a batch counts. If it is sealed and none of its tasks is left, it is finished now.
--
-- Keys: delayed meta conf wake tick batches
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  name       of the batch
-- ARGV[3]  seen       the text of the batch while its tasks were counted; "" if it was unknown
-- ARGV[4]  left       how many of its tasks are live
-- ARGV[5]  died       how many of its tasks are stored as dead letters
--
-- Returns 1; 0 if the batch has changed since (nothing changed).
-- Lost reply: safe to send again; the second call finds the batch changed.
local time, name, seen, left, died = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

-- Needs: now, go_on, batches
if (redis.call('HGET', batches, name) or '') ~= seen then
  return 0
end
go_on()
local batch = batching().of(name)
batch.left, batch.dead, batch.listed = left, math.max(batch.dead, died), '0'
batching().keep(name, batch)
return 1
