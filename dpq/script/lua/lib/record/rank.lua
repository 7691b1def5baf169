-- rank: give a task another priority. It keeps its sequence, so its place among equal priorities. In a queue whose
-- smallest number runs first (`order` is "min") the negative of the user's number is stored, with a "0" in front of its
-- digits: of 5 "-05", of -1.5 "01.5". So all scripts compute as for any queue (dpq/model/priority.py).
-- Gives: set_priority(task, priority, residual), for a priority as its user wrote it, and what its double lost. If the
--        priority is "", or left out, nothing changes;
--        turned(priority, residual), for texts of the user; a priority that is turned already stays as it is;
--        turn_all(args, options), for the variables of push with these names. It turns the priority and the residual of
--        options; of a plain task the score, and the priority before its payload.
local function turned(priority, residual)
  if string.find(priority, '^%-?0%d') then
    return priority, residual
  elseif residual ~= '1' then -- order: what the double lost has the other sign, too
    local side, digits = string.match(residual, '^(%d)(%d+)$')
    residual = string.format('%d%03d', side == '0' and 2 or 0, 999 - digits)
  end
  return (string.byte(priority) == 45 and '0' .. string.sub(priority, 2) or '-0' .. priority), residual
end

local function set_priority(task, priority, residual)
  if (priority or '') ~= '' then
    if string.find(task.priority, '^%-?0%d') then -- its queue is one whose smallest number runs first
      priority, residual = turned(priority, residual)
    end
    task.priority, task.order = priority, residual .. string.sub(task.order, -15)
  end
end

local function turn_all(args, options)
  for i = 1, (#args - 1) / 3 do
    local option = options[i]
    if option then
      option.priority, option.residual = turned(option.priority, option.residual)
    else
      local most, text, rest = string.match(args[3 * i + 1], '^(%d* )(%S+)(.*)$')
      text = turned(text, '1')
      args[3 * i] = string.byte(text) == 45 and string.sub(text, 2) or '-' .. text
      args[3 * i + 1] = most .. text .. rest
    end
  end
end
