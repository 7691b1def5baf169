-- finished: count the tasks of batches that an ack finishes.
-- Keys: dead
-- Needs: batches
-- Gives: count_finished(gone, gone_at, raws), for the variables of ack with these names, before the tasks leave dead.
local function count_finished(gone, gone_at, raws)
  local counted = {} -- the call may name a task twice
  for n, id in ipairs(gone) do
    local batch = not counted[id] and batch_in(raws[gone_at[n]])
    if batch then
      counted[id] = true
      batching().count(batch, redis.call('ZSCORE', dead, id) and 'dead' or 'left', 'done')
    end
  end
end
