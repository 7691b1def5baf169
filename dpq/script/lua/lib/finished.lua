-- finished: count the tasks of batches that an ack finishes, and note the end of tasks for which others wait.
-- Needs: batches, followed, notes
-- Gives: count_finished(ids, gone_at, again, raws), for the variables of ack with these names, before the tasks leave
--        dead. A dead task that comes back, since it was pushed again while it ran, is counted first.
local function count_finished(ids, gone_at, again, raws)
  local counted = {} -- the call may name a task twice
  local function count_each(indexes, comes_back)
    for _, i in ipairs(indexes) do
      local id, batch = ids[i], not counted[ids[i]] and string.match(raws[i], OF_BATCH)
      if not comes_back then
        end_followed(id, raws[i], 'done')
      end
      local died = batch and redis.call('ZSCORE', dead, id)
      if batch and (died or not comes_back) then
        counted[id] = true
        count_in_batch(batch, died and 'dead' or 'left', comes_back and 'left' or 'done')
      end
    end
  end

  count_each(again, true)
  count_each(gone_at)
end
