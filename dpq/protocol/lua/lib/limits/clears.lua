-- clears: estimate when a gate has let many tasks start.
-- Needs: now, pace, moving, budgets, period, pool
-- Gives: clears_at(gate, costs, count, from), for `count` tasks, of which some cost what `costs` says, and of which none
--        starts before `from`, ms. It returns the moment, ms, and the name of the slowest rule, or "".
local function clears_at(gate, costs, count, from)
  from = math.max(gate.opens, from)
  local at, slowest = from, ''
  local function later(moment, name)
    if moment > at then
      at, slowest = moment, name
    end
  end

  -- Sums the units of all tasks, and those above the burst: of the first task, and of those between the first and the
  -- last. Windows or periods of `most` units have units free if the next task does not fit: these are the fourth value.
  -- The first of them has `filled`. The fifth value is what the last task takes.
  local function sums(unit, most, burst, filled)
    local n, units, above, free, first, takes = math.max(#costs, math.min(count, 200)), 0, 0, 0, nil, 0
    for i = 0, n - 1 do
      takes = math.min(costs[i % #costs + 1][unit] or 0, most)
      units, above = units + takes, above + math.max(0, takes - burst)
      first = first or above
      if filled + takes > most then
        free, filled = free + most - filled, 0
      end
      filled = filled + takes
    end
    local times = count / n
    return units * times, first, above * times - first - math.max(0, takes - burst), free * times, takes
  end

  local function in_periods(name, unit, left, amount, ends, length, spread)
    local units, _, _, free, last = sums(unit, amount, 0, amount - left)
    local over = units + free - left
    local periods = math.ceil(over / amount)
    if units > 0 and periods > 0 then
      over = over - (periods - 1) * amount
      later(ends + (periods - 1 + (spread and (over - last) / amount or 0)) * length, name)
    elseif units > 0 and spread then
      later(from + (ends - from) * (units - last) / left, name)
    end
  end

  for i, rule in ipairs(gate.rules) do
    local window = gate[i]
    local units, first, above, free = sums(rule.unit, rule.moving and rule.rate or window.most, rule.burst, 0)
    if units > 0 and rule.moving then
      local whole = math.ceil((units + free) / rule.rate) - 1
      later(math.max(from, moving().opens(gate, i, units + free - whole * rule.rate))
        + whole * moving().length_of(gate, rule), rule.name)
    elseif units > 0 then -- units above the burst are saved before a task starts; none of them pays for the next one
      later(math.max(from, window.owed + time_of(first, window))
        + time_of(units - rule.burst + above, window), rule.name)
    end
  end
  for i, rule in ipairs(gate.rules.quotas or {}) do
    local quota, start, ends = gate.quotas[i], period_of(rule, from)
    local runs = quota.reset > from
    in_periods(rule.name, rule.unit, rule.amount - (runs and quota.count or 0), rule.amount,
      runs and quota.reset or ends, ends - start, rule.spread)
  end
  for unit, budget in pairs(gate.observed or {}) do
    local units = sums(unit, math.huge, 0, 0)
    if budget.size and budget.ends > from then
      in_periods('host', unit, budget.left, budget.size, budget.ends, budget.length)
    elseif budget.interval then
      later(math.max(from, budget.ends) + (units - budget.left) * budget.interval, 'host')
    else
      later(budgets().at(budget, units), 'host')
    end
  end
  if gate.rules.members then
    pool_at(gate, {}, math.huge)
    local rested = {}
    for _, mate in ipairs(gate.mates) do
      rested[#rested + 1] = mate.opens <= from and mate or nil
    end
    local soonest, name = math.huge, ''
    for _, mates in ipairs({ gate.mates, rested[1] and rested }) do -- which members do all, and end the soonest
      local ends, of = from, ''
      for _, mate in ipairs(mates) do
        local last, rule = clears_at(mate, costs, math.ceil(count / #mates), from)
        ends, of = math.max(ends, last), last > ends and rule or of
      end
      soonest, name = math.min(soonest, ends), ends < soonest and of or name
    end
    later(soonest, name)
  end
  return at, slowest
end
