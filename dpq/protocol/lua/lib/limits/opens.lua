-- opens: compute when a gate lets a task run.py; dpq/model/priority.py has entitled_at. tests/contract/test_arithmetic.py compares both.
-- Keys: conf
-- Needs: now, pace, moving, budgets
-- Gives: free_now(gate, cost), true if a gate clearly lets a task run now; then no call of opens_at is needed;
--        opens_at(gate, cost, rank), the moment when the gate lets the task run, ms. `cost` is what weigh (cost) gives.
--        A task that costs more than a window ever grants takes all of it. A window does not hold up a task that takes
--        none of its unit. If the rank (minus the score) is below that of a reserve, the task must leave the reserved
--        units. The second value is the moment for the quotas alone, or 0.
local aged

-- The moment when a task of this rank has aged enough to take units of the reserve of a rule, ms. It is 0 if the task
-- may take them now.
local function entitled_at(rule, rank)
  if not aged then
    local rate, since, order = unpack(redis.call('HMGET', conf, 'aging', 'aging_since', 'order'))
    aged = { min = order == 'min', rate = since and tonumber(rate) or 0, since = tonumber(since or 0) or 0 }
  end
  local missing = (aged.min and -rule.rank or rule.rank) - rank - aged.rate * (instant - aged.since) / 1000
  return missing <= 0 and 0 or aged.rate > 0 and instant + missing / aged.rate * 1000 or math.huge
end

local function free_now(gate, cost)
  if not gate.plain and (gate.opens > instant or gate.quotas or gate.observed or gate.rules.unreadable) then
    return false
  end
  local rules = gate.rules
  for i = 1, #rules do
    local rule = rules[i]
    local window, units = gate[i], cost[rule.unit] or 0
    if units > 0 and (rule.asked or window.owed + (units - rule.burst) * window.interval + 0.001 > instant) then
      return false
    end
  end
  return true
end

local function opens_at(gate, cost, rank)
  local at, counted = gate.opens, 0
  if gate.rules.unreadable then -- the rules are read again then
    return math.max(at, instant + 30000), 0
  end
  for i, rule in ipairs(gate.rules) do
    local window, units = gate[i], cost[rule.unit] or 0
    local paid = 0
    if units > 0 then
      paid = rule.moving and moving().opens(gate, i, units)
        or window_at(window, rule, units)
    end
    if units > 0 and rule.reserve > 0 and rank < math.huge then
      local grown = entitled_at(rule, rank)
      if grown > 0 then -- wait until there are enough units, or the task has aged enough
        local spared = rule.moving and moving().opens(gate, i, units + rule.reserve)
          or paid + time_of(rule.reserve, window)
        paid = math.min(spared, math.max(paid, grown))
      end
    end
    at = math.max(at, paid)
  end
  for unit, budget in pairs(gate.observed or {}) do
    at = math.max(at, budgets().at(budget, cost[unit] or 0))
  end
  if gate.quotas then
    counted = gate.quotas.opens(cost, function(rule)
      return rank < math.huge and entitled_at(rule, rank) or 0
    end)
  end
  return math.max(at, counted), counted
end
