-- parts: take a record apart, in either form, and check that it is a record. A text with a wrong or too long number is
-- no record: that number would stop a script in its middle, or its reader.
-- Needs: order, cost, layout
-- Gives: parts(raw), nil if the text is no record. Else it returns where its letter stands; where it ends, before the
--        line feed of its payload; priority, cost, expires, aging, group; token, attempts, deliveries, deferrals,
--        delivery, again.
local function parts(raw)
  local at, kind, token, attempts, deliveries, deferrals, delivery, again = 1, string.byte(raw), '0', '0', '0', '0',
    '-', '0'
  if kind and kind <= 57 then -- a digit
    token, attempts, deliveries, deferrals, delivery, again, at = string.match(raw,
      '^(%d+) (%d+) (%d+) (%d+) (%S) (%d+) ()')
    kind = at and string.byte(raw, at)
  end
  local cost, expires, aging = '1', '0', '0'
  local order, order_end, priority, edge, group, rest
  if kind == SHORT then
    priority, edge, group, rest = string.match(raw,
      '^%x%x%x%x%x%x%x%x%x%x%x%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d* (%-?%d+)()\t([^\t\n]*)()', at + 1)
  elseif kind == 102 then -- f
    order, order_end, priority, cost, expires, aging, edge, group, rest = string.match(raw,
      '^%d+ ()%d+() %d+ (%-?%d[%d.e+-]*) (%d%S*) %d+ (%d+) (%S+)()\t([^\t\n]*)\t[^\t\n]*\t[^\t\n]*\t[^\n]*()', at + 1)
  end
  local number = tonumber(priority or '')
  local rate = aging == '0' and 0 or tonumber(string.match(aging or '', '^(%d[%d.e+-]*)@%d+$') or '')
  if number and number - number == 0 and edge <= 400 and (rest > #raw or string.byte(raw, rest) == 10)
    and #attempts <= 13 and #deliveries <= 13 and #deferrals <= 13 -- so that the next number is written as digits
    and is_cost(cost) and rate and rate <= 1000000
    and (not order or order_end - order == residual_in(raw, order) + 15) then
    return at, rest, priority, cost, expires, aging, group, token, attempts, deliveries, deferrals, delivery, again
  end
end
