-- join: count the pushed tasks of batches, and seal the batches that a pushed task is to wait for.
-- Needs: batches
-- Gives: for the variables of push with these names:
--        late_for_batch(ids, options, known), the reply of push if the batch of a task is finished, or nil. If a task
--        waits for a batch already, another such task counts as known: push does not add it;
--        join_batches(ids, options, known, holders), which counts the new tasks;
--        seal_all(ids, options), which seals the batches of the tasks that wait.
local function late_for_batch(ids, options, known)
  for i in ipairs(ids) do
    local option = not known[i] and options[i] or {}
    local name = option.batch or option.seals
    local batch = name and batch_of(name)
    if option.batch and batch.state == 'f' then
      return { -10, i, option.batch }
    end
    known[i] = known[i] or option.seals and batch.callback ~= ''
  end
end

local function join_batches(ids, options, known, holders)
  local new = {}
  for i in ipairs(ids) do
    local name = not known[i] and not holders[i] and options[i] and options[i].batch
    if name then
      new[name] = (new[name] or 0) + 1
    end
  end
  for name, n in pairs(new) do
    count_in_batch(name, nil, 'left', n)
  end
end

local function seal_all(ids, options)
  for i, id in ipairs(ids) do
    if options[i] and options[i].seals then
      seal_batch(options[i].seals, id)
    end
  end
end
