-- admission: refuse a push for which there is no room, or make room for it. A push that changes the task of its key,
-- or revives a dead letter, needs no room: no task is lost that comes back.
-- Needs: room, record, place, trim, order, batches, followed, notes
-- Gives: no_room(ids, known, holders, options, group_of, fresh), for the variables of push with these names. If a bound
--        refuses the push, it returns the reply of push. Else it returns nil, and the number of new tasks of each group
--        that is to drop its worst tasks, or nil;
--        drop_worst(coming), which makes dead letters of these: what is above the bound, but no more than have come.
local function no_room(ids, known, holders, options, group_of, fresh)
  local most, most_waiting, how = bounds()
  if most == math.huge and most_waiting == math.huge then
    return nil
  end
  local size = size_of('')
  if size + fresh > most then
    return { -15, size, most, '', fresh }
  elseif most_waiting == math.huge then
    return nil
  end
  local coming = {}
  for i = 1, #ids do
    local option = options[i]
    local group = group_of[i] or option.group
    local later = option and (option.delay > 0 or option.cron or option.seals)
    if group ~= '' and not known[i] and not holders[i] and not later then
      coming[group] = (coming[group] or 0) + 1
    end
  end
  if how == 'drop_worst' then
    return nil, coming
  end
  for group, count in pairs(coming) do
    size = size_of(group)
    if size + count > most_waiting then
      return { -15, size, most_waiting, group, count }
    end
  end
end

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
      count_in_batch(string.match(task.options, OF_BATCH), 'left', 'dead')
      end_followed(id, task.options, 'dead')
      trim(2)
    end
  end
  admit()
end
