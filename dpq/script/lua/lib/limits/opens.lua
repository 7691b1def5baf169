-- opens: compute when a gate lets a task run.
-- Needs: now, pace, moving, meters
-- Gives: free_now(gate, cost), true if a gate clearly lets a task run now; then no call of opens_at is needed;
--        opens_at(gate, cost, rank), the moment when the gate lets the task run, ms. `cost` is what weigh (cost) gives.
--        A task that costs more than a window ever grants takes all of it. A window does not hold up a task that takes
--        none of its unit. If the rank (minus the score) is below that of a reserve, the task must leave the reserved
--        units. The second value is the moment for the quotas alone, or 0.
local aged

-- Returns when a task may take units that are free at one moment, and are there without the reserve at a later one
-- (`spared`). Between these moments it must have aged enough, if its rank is below that of the reserve.
local function unreserved(rule, rank, free, spared)
  if rank == math.huge or spared <= math.max(free, instant) then
    return free
  end
  if not aged then
    local rate, since, order = unpack(redis.call('HMGET', conf, 'aging', 'aging_since', 'order'))
    aged = { min = order == 'min', rate = since and tonumber(rate) or 0, since = tonumber(since or 0) or 0 }
  end
  local missing = (aged.min and -rule.rank or rule.rank) - rank - aged.rate * (instant - aged.since) / 1000
  local grown = missing <= 0 and 0 or aged.rate > 0 and instant + missing / aged.rate * 1000 or math.huge
  return math.min(spared, math.max(free, grown))
end

local function free_now(gate, cost)
  if not gate.plain and (gate.opens > instant or gate.meters or gate.rules.unreadable) then
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
    if units > 0 then
      local free = rule.moving and moving_opens(gate, i, units) or window_at(window, rule, units)
      if rule.reserve > 0 then
        free = unreserved(rule, rank, free, rule.moving and moving_opens(gate, i, units + rule.reserve)
          or free + time_of(rule.reserve, window))
      end
      at = math.max(at, free)
    end
  end
  for _, meter in pairs(gate.meters or {}) do
    local rule, units = meter.rule, cost[meter.unit] or 0
    local free = meter_at(meter, units)
    if rule and units > 0 and rule.reserve > 0 then
      free = unreserved(rule, rank, free, meter_at(meter, units + rule.reserve))
    end
    at, counted = math.max(at, free), rule and math.max(counted, free) or counted
  end
  return math.max(at, counted), counted
end
