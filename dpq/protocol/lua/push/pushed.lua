-- pushed: note in the trail the tasks that a push has added, and the tasks that it has changed.
-- Needs: trail, turn
-- Gives: note_pushes(args, options, known, holders, group_of), for the variables of push with these names.
local function note_pushes(args, options, known, holders, group_of)
  for i = 1, (#args - 1) / 3 do
    local option, group = options[i], group_of[i]
    local priority = shown(option and option.priority or string.match(args[3 * i + 1], '^%d* (%-?%d+)\t'))
    if holders[i] then
      if option.on_duplicate ~= 'keep' then
        note('updated', option.group, '', holders[i], option.on_duplicate .. ', by a push of its key')
      end
    elseif not known[i] then
      local how = option and option.delay ~= 0 and 'priority %s, in %.0f ms' or 'priority %s'
      note('pushed', group or option.group, '', args[3 * i - 1], string.format(how, priority, option and option.delay))
    end
  end
end
