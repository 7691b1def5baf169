-- turn: write priorities for a queue whose smallest number runs first (its `order` is "min"). Callers send the number
-- of the user. Its negative is stored, with a "0" in front of its digits: of 5 it is "-05", of -1.5 "01.5". So all
-- scripts compute as for any queue, and a reader of a record knows what the user wrote (dpq/model/priority.py).
-- Gives: turned(priority, residual), for texts of the user; a priority that is turned already stays as it is.
local function turned(priority, residual)
  if string.find(priority, '^%-?0%d') then
    return priority, residual
  elseif residual ~= '1' then -- order: what the double lost has the other sign, too
    local side, digits = string.match(residual, '^(%d)(%d+)$')
    residual = string.format('%d%03d', side == '0' and 2 or 0, 999 - digits)
  end
  return (string.byte(priority) == 45 and '0' .. string.sub(priority, 2) or '-0' .. priority), residual
end
