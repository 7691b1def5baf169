-- drop_worst: make the worst tasks of full groups dead letters.
-- Keys: waiting meta
-- Needs: room, record, place, trim, order, batches, followed
-- Gives: drop_worst(coming), for the number of new tasks of each group (admission). Of each group it buries what is
--        above the bound, but no more tasks than have come: a push does not pay for tasks that have come back.
local function drop_worst(coming)
  local _, most = bounds()
  for group, count in pairs(coming) do
    for _ = 1, math.min(count, size_of(group) - most) do
      local from, to = '(' .. group .. '\n', '[' .. group .. '\t'
      local worst = redis.call('ZREVRANGEBYLEX', waiting, from, to, 'LIMIT', '0', '1')[1] or ''
      local id = id_of(string.sub(worst, #group + 20)) -- behind the group, a TAB and 18 digits of the score
      local task = read(redis.call('HGET', meta, id) or '')
      if not task then
        break -- this is damage, which check reports
      end
      leave(id, task)
      lay_down(id, task, 'group full')
      batching().count(batch_in(task.options), 'left', 'dead')
      end_followed(id, task.options, 'dead')
      trim(2)
    end
  end
  admit()
end
