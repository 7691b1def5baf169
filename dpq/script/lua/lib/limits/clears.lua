-- clears: estimate when a gate has let many tasks start.
-- Needs: pace, moving, meters, period, pool, record, cost, estimate
-- Gives: clears_at(gate, costs, count, from), for `count` tasks. `costs` is what some of them take, in order. No task
--        starts before `from`, ms. It returns when the last one starts, ms, and the name of the slowest rule, or "";
--        costs_of(ids, gate): the units by name that each of these tasks takes, with what the gate reserves for it; of
--        one request, if there is no such task.
local function clears_at(gate, costs, count, from)
  from = math.max(gate.opens, from)
  local at, slowest = from, ''
  local function later(moment, name)
    if moment > at then
      at, slowest = moment, name
    end
  end

  -- Returns the units of all tasks; the units above the burst of the first task, and of those between the first and
  -- the last; the units that stay free in windows of `most` units because the next task does not fit; and what the
  -- last task takes. Of the first window, `filled` units are taken.
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

  -- In periods, units come back all at once. The first period has units left, and ends at `ends`.
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
      later(math.max(from, moving_opens(gate, i, units + free - whole * rule.rate))
        + whole * length_of(gate, rule), rule.name)
    elseif units > 0 then -- a task above the burst waits for its units, and then pays for them
      later(math.max(from, window.owed + time_of(first, window))
        + time_of(units - rule.burst + above, window), rule.name)
    end
  end
  for _, meter in pairs(gate.meters or {}) do
    local units, rule = sums(meter.unit, math.huge, 0, 0), meter.rule
    if rule then
      local start, ends = period_of(rule, from)
      local runs = meter.ends > from
      in_periods(rule.name, rule.unit, runs and meter.left or rule.amount, rule.amount, runs and meter.ends or ends,
        ends - start, rule.spread)
    elseif meter.most then
      in_periods('host', meter.unit, meter.left, meter.most, meter.ends, meter.length)
    elseif meter.interval then
      later(math.max(from, meter.ends) + (units - meter.left) * meter.interval, 'host')
    else
      later((meter_at(meter, units)), 'host')
    end
  end
  if gate.rules.members then
    pool_at(gate, {}, math.huge)
    local soonest, name = math.huge, ''
    for _, open_by in ipairs({ from, math.huge }) do -- the members that are open, or all of them
      local mates, last, slow = {}, from, ''
      for _, mate in ipairs(gate.mates) do
        mates[#mates + 1] = mate.opens <= open_by and mate or nil
      end
      for _, mate in ipairs(mates) do
        local moment, rule = clears_at(mate, costs, math.ceil(count / #mates), from)
        last, slow = math.max(last, moment), moment > last and rule or slow
      end
      if mates[1] and last < soonest then
        soonest, name = last, slow
      end
    end
    later(soonest, name)
  end
  return at, slowest
end

local function costs_of(ids, gate)
  local costs = {}
  for _, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
    local task = raw and read(raw)
    costs[#costs + 1] = task and (estimated(weigh(task.cost), gate))
  end
  return costs[1] and costs or { (estimated(weigh('1'), gate)) }
end
