-- pushed: note in the trail what a push has added, and what it has changed.
-- Needs: trail
-- Gives: note_pushes(args, known, holders, group_of), as push has them.
local HOW = { u = 'update', r = 'raise_priority', a = 'rerun' }

local function note_pushes(args, known, holders, group_of)
  for i = 1, (#args - 1) / 3 do
    local id, spec, body, group = args[3 * i - 1], args[3 * i], args[3 * i + 1], group_of[3 * i - 1]
    local priority, wait, mode = string.match(body, '^%d* (%-?%d+)\t'), '0', nil
    if not group then
      wait, priority, mode, group = string.match(spec, '^f%d+ %d%S* (%d+) (%S+) %d+ %d+ (%l)[^\t]*\t([^\t]*)')
    end
    if holders[i] then
      if HOW[mode] then
        note('updated', group, '', holders[i], HOW[mode] .. ', by a push of its key')
      end
    elseif not known[i] then
      local how = wait == '0' and 'priority %s' or 'priority %s, in %s ms'
      note('pushed', group, '', id, string.format(how, priority, wait))
    end
  end
end
