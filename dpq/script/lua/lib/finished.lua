-- finished: count the tasks of batches that an ack finishes, and note the end of tasks for which others wait.
-- Needs: batches, followed, notes
-- Gives: count_finished(ids, gone_at, again, raws), for the variables of ack with these names, before the tasks leave
--        dead. A dead task that comes back, since it was pushed again while it ran, is counted first.
local function count_finished(ids, gone_at, again, raws)
  for _, i in ipairs(again) do
    local batch = string.match(raws[i], OF_BATCH)
    if batch and redis.call('ZSCORE', dead, ids[i]) then
      count_in_batch(batch, 'dead', 'left')
    end
  end
  for _, i in ipairs(gone_at) do
    local batch = string.match(raws[i], OF_BATCH)
    end_followed(ids[i], raws[i], 'done')
    count_in_batch(batch, batch and redis.call('ZSCORE', dead, ids[i]) and 'dead' or 'left', 'done')
  end
end
