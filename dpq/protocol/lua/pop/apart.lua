-- apart: take the record of a task that pop has removed from ready apart, whatever its form. It reads records by the
-- same rule as `read` (record); but a table for each would cost too much.
-- Needs: cost
-- Gives: apart(raw, taken): nil if it is no record; else its counts after this delivery; where the rest of it begins;
--        where its payload does; its cost, until when it must have begun, its group. In `taken` (take), priority and
--        aging are the last ones that could be read.
local COUNTS = '^%d+ (%d+) (%d+) (%d+) %S (%d+) ()'
local PLACED = '^%x%x%x%x%x%x%x%x%x%x%x%d+() (%-?%d+)()\t([^\t\n]*)()'
local FULL = '^%d+ ()%d+() %d+ (%-?%d[%d.e+-]*) (%d%S*) %d+ (%d+) (%S+)()'
  .. '\t([^\t\n]*)\t[^\t\n]*\t[^\t\n]*\t[^\n]*()'
local FRESH_FULL = '^f%d+ 1%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d %d+ %-?%d+ (%d%S*) %d+ 0 0()'
  .. '\t([^\t\n]*)\t[^\t\n]*\t[^\t\n]*\t[^\n]*()' -- never delivered; neither expiry nor aging

local function apart(raw, taken)
  local fresh_cost, fresh_edge, fresh_group, fresh_rest = string.match(raw, FRESH_FULL)
  if fresh_rest and fresh_edge <= 255 and is_cost(fresh_cost) and string.byte(raw, fresh_rest) == 10 then
    return '0 1 0 - 0 ', 1, fresh_rest, fresh_cost, '0', fresh_group
  end
  local at, kind, attempts, deliveries, deferrals, again = 1, string.byte(raw), '0', '0', '0', '0'
  if kind and kind <= 57 then
    attempts, deliveries, deferrals, again, at = string.match(raw, COUNTS)
    kind = at and string.byte(raw, at)
  end
  local order, order_end, priority, edge, group, rest
  local cost, expires, aging = '1', '0', '0'
  if kind == 113 then
    order_end, priority, edge, group, rest = string.match(raw, PLACED, at + 1)
    order = order_end and order_end - at >= 27 and order_end - 16 -- the first digit of its order is not stored
  elseif kind == 102 then
    order, order_end, priority, cost, expires, aging, edge, group, rest = string.match(raw, FULL, at + 1)
  end
  if priority ~= taken.priority then
    local number = tonumber(priority or '')
    taken.priority = number and number - number == 0 and priority or taken.priority
  end
  if aging ~= taken.aging then
    local rate = aging == '0' and 0 or tonumber(string.match(aging or '', '^(%d[%d.e+-]*)@%d+$') or '')
    taken.aging = rate and rate <= 1000000 and aging or taken.aging
  end
  local sound = priority == taken.priority and aging == taken.aging and edge and edge <= 400 and #attempts <= 13
    and #deliveries <= 13 and #deferrals <= 13 and order
    and order_end - order == ((kind == 113 or string.byte(raw, order) == 49) and 16 or 19)
    and (rest > #raw or string.byte(raw, rest) == 10) and is_cost(cost)
  if sound then
    local counted = attempts .. (deliveries == '0' and ' 1 ' or ' ' .. deliveries + 1 .. ' ') .. deferrals
    return counted .. ' - ' .. again .. ' ', at, rest, cost, deliveries == '0' and expires or '0', group
  end
end
