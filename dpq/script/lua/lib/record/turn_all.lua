-- turn_all: turn the priorities of a push into a queue whose smallest number runs first.
-- Needs: rank
-- Gives: turn_all(args, options), for the variables of push with these names. It replaces the priority and the residual
--        of options; of a plain task the score, and the priority before its payload.
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
