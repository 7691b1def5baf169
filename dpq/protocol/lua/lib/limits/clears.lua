-- clears: estimate when a gate has let many units start. The sum of the units goes through each window, quota and
-- budget as if tasks came one behind the other, at whatever size.
-- Needs: now, pace, budgets, period, pool
-- Gives: clears_at(gate, units), for a sum of units by name: the moment, ms, and the name of the slowest rule, or "".
local function clears_at(gate, units)
  local at, slowest = math.max(gate.opens, instant), ''
  local function later(moment, name)
    if moment > at then
      at, slowest = moment, name
    end
  end
  for i, rule in ipairs(gate.rules) do
    local sum, window = units[rule.unit] or 0, gate[i]
    if sum > 0 and rule.moving then
      later(instant + math.ceil(math.max(0, sum - rule.rate + window.sum) / rule.rate) * rule.per, rule.name)
    elseif sum > 0 then
      later(math.max(window.owed, instant) + time_of(sum - rule.burst, window), rule.name)
    end
  end
  for i, rule in ipairs(gate.rules.quotas or {}) do
    local sum, quota = units[rule.unit] or 0, gate.quotas[i]
    local ends = quota.reset > 0 and quota.reset or gate.quotas.end_of(rule)
    local from, to = period_of(rule, ends)
    local periods = math.ceil((sum - rule.amount + quota.count) / rule.amount)
    if sum > 0 and periods > 0 then
      later(ends + (periods - 1) * (to - from), rule.name)
    elseif sum > 0 and rule.spread then
      later(instant + (ends - instant) * sum / math.max(sum, rule.amount - quota.count), rule.name)
    end
  end
  for unit, budget in pairs(gate.observed or {}) do
    later(budgets().at(budget, units[unit] or 0), 'host')
  end
  if gate.rules.members then
    pool_at(gate, {}, math.huge)
    local share = {}
    for unit, sum in pairs(units) do
      share[unit] = sum / #gate.mates
    end
    for _, mate in ipairs(gate.mates) do
      later(clears_at(mate, share))
    end
  end
  return at, slowest
end
