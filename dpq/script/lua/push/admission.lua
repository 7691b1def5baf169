-- admission: refuse a push for which there is no room.
-- Needs: room
-- Gives: no_room(ids, known, holders, options, group_of, fresh), for the variables of push with these names. If a bound
--        refuses the push, it returns the reply of push. Else it returns nil, and the number of new tasks of each group
--        that is to drop its worst tasks, or nil.
-- A push that changes the task of its key, or revives a dead letter, needs no room: no task is lost that comes back.
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
