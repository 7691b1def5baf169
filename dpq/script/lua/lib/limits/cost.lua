-- cost: read what a task takes of a limit, in each unit. In a record, a cost is a number of requests: "1". Other units
-- may follow: "1,tokens=1800,usd=900". A "~" instead of the "=" marks units that were reserved for a delivery, and that
-- the task does not name. They are no part of the cost.
-- Gives: is_cost(text), true if the text is a cost;
--        weigh(text), the units by name, with "" for requests. It also takes a table that it has returned.
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
