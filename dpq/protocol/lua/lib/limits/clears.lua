-- clears: estimate when a gate has let many units start. The sum of the units goes through each window, quota and
-- budget as if tasks came one behind the other, at whatever size.
-- Needs: now, pace, meters, period, pool
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
  for _, meter in pairs(gate.meters or {}) do
    local sum, rule, ends = units[meter.unit] or 0, meter.rule, ends_of(meter)
    if not rule then
      later(meter_at(meter, sum), 'host')
    elseif sum > meter.left then
      local from, to = period_of(rule, ends)
      later(ends + (math.ceil((sum - meter.left) / rule.amount) - 1) * (to - from), rule.name)
    elseif rule.spread then
      later(instant + (ends - instant) * sum / math.max(sum, meter.left), rule.name)
    end
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
