-- cost: what a task takes of a limit, in each of its units. In a record it is a number of requests, and behind it other
-- units: "1", or "1,tokens=1800,usd=900". A "~" instead of the "=" stands before what was reserved for a delivery, and
-- not named: it is no part of the cost.
-- Gives: is_cost(text); weigh(text): the units, by name, "" for requests. What it returns may be weighed again.
local weighed = {}

local function is_cost(text)
  return text == '1' or string.find(text, '^%d+$') or string.find(text, '^%d+,[a-z0-9_=~,]+$')
end

local function weigh(text)
  local cost = weighed[text]
  if not cost then
    cost = { [''] = tonumber(string.match(text, '^%d+')) }
    for unit, units in string.gmatch(text, ',([a-z][a-z0-9_]*)=(%d+)') do
      cost[unit] = tonumber(units)
    end
    weighed[text], weighed[cost] = cost, cost
  end
  return cost
end
