-- apart: take apart the record of a task that pop has removed from ready. A table for each record, as in `record`,
-- would cost too much.
-- Needs: now, parts
-- Gives: apart(raw): nil if it is no record; else its counts after this delivery; where its rest begins; where its
--        payload begins; its cost; until when the task must have begun; its group. A delivery at or after the moment of
--        a `rerun` is that run.
local function apart(raw)
  local at, rest, _, cost, expires, _, group, _, attempts, deliveries, deferrals, _, again = parts(raw)
  if at then
    local counted = attempts .. (deliveries == '0' and ' 1 ' or ' ' .. deliveries + 1 .. ' ') .. deferrals
    again = again ~= '0' and tonumber(again) > now and again or '0'
    return counted .. ' - ' .. again .. ' ', at, rest, cost, deliveries == '0' and expires or '0', group
  end
end
