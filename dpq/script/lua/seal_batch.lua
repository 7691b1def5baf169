-- seal_batch: seal a batch without a task that waits for its end. Once none of its tasks is left, it is finished.
--
-- Keys: delayed meta conf wake tick batches
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  name       of the batch; if it is unknown, it is empty, and finished at once
--
-- Returns {0, text} of the batch, as in the file batches in lib. {1}: the queue does not exist: configure it and call
-- again.
-- Lost reply: safe to send again; a sealed batch stays sealed.

-- Needs: now, refusal, batches
local refused, format = refusal(redis.call('HGET', conf, 'format'))
if refused or not format then
  return refused or { 1 }
end
seal_batch(name, '')
return { 0, redis.call('HGET', batches, name) }
