-- waits: find a task that waits for a batch which will not release it, and let it be due.
-- Keys: delayed
-- Needs: problem, batches, batch_list
-- Gives: look_at_wait(id, raw, mends), for the record of a task.
local function look_at_wait(id, raw, mends)
  local name = batch_list().awaited(raw)
  if name and tonumber(redis.call('ZSCORE', delayed, id) or '0') >= batch_list().until_released then
    local batch = batching().of(name)
    if batch.callback ~= id or batch.state == 'f' then
      problem('waits for nothing', id, name)
      if mends then
        batching().release(id)
      end
    end
  end
end
