-- meters: count what is left of a unit, until a moment at which all of it is left again. The meter of a quota finds its
-- next period in the calendar. That of a budget, which a host has told, ends at the reset; but if the host has told its
-- whole limit, the next window follows. Layout: docs/storage.md, "Meters". Proof: docs/design.md, "Quotas".
-- Needs: now, rules, period
-- Gives: hold_meters(gate, tokens, spent), which makes gate.meters, by the names of their tokens, from what the gate
--        has stored (gate_text); nil if there are none. If `spent`, all units of quotas count as spent. Each meter has
--        `unit`, `left`, `ends`, and perhaps `most`, the whole limit. Only quotas have a `rule`; before they have
--        counted, `ends` is 0. If there are budgets, gate.told is true;
--        meter_at(meter, units), when a meter lets a task run, ms, or 0;
--        charge_meters(gate, cost, moment). If a budget says that nothing is left, the task runs to ask the host anew,
--        alone;
--        ends_of(meter), when its period is over, ms;
--        kept_until(meter), until when a meter is kept, ms;
--        meters_text(gate), the text of the meters in the gate.
local function ends_of(meter)
  if meter.ends > 0 then
    return meter.ends
  end
  local _, ends = period_of(meter.rule, instant)
  return ends
end

-- An hour longer, since some hosts are asked less than once in each of their windows.
local function kept_until(meter)
  return not meter.rule and meter.most and meter.reset + 3600000 or meter.ends
end

-- After the end of a period its count is over. But if the next period by the calendar begins before that end, the count
-- stays: the clock was set back, or the zone has changed.
local function read_quota(gate, rule, text, realigned)
  local count, start, ends, at = string.match(text or '0:0:0:0', '^(%d+):(%d+):(%d+):(%d+)$')
  local quota = { rule = rule, unit = rule.unit, most = rule.amount, left = rule.amount - count,
    start = tonumber(start), ends = tonumber(ends), next = rule.spread and tonumber(at) or 0 }
  local anew = seen.realign or quota.start < realigned
  if quota.ends > 0 and (instant >= quota.ends or instant < quota.start or anew) then
    local first, last = period_of(rule, instant)
    if first >= quota.ends then
      quota.left, quota.start, quota.ends, quota.next = quota.most, 0, 0, 0
    else
      quota.next = last == quota.ends and quota.next or 0
      quota.start, quota.ends, gate.changed = now, last, true
    end
  end
  return quota
end

local function read_budget(unit, text)
  local left, ends, reset, length, most, interval, asks = string.match(text,
    '^(%d+):([%d.]+):([%d.]+):(%d+):(%d*):([%d.]*):([%d.]*)$')
  local budget = { unit = unit, left = tonumber(left), ends = tonumber(ends), reset = tonumber(reset),
    length = tonumber(length), most = tonumber(most), interval = tonumber(interval), asks = tonumber(asks) }
  if most ~= '' and budget.ends <= instant and instant < kept_until(budget) then
    budget.ends = budget.ends + (math.floor((instant - budget.ends) / length) + 1) * length
    budget.left, budget.asks = budget.most, nil
  end
  return budget.ends > instant and budget.ends <= now + 86400000 and budget or nil -- else the clock was set back
end

local function hold_meters(gate, tokens, spent)
  local rules, meters = gate.rules, {}
  local realigned = rules.quotas and rules == seen.rules.groups and redis.call('HGET', conf, 'realigned')
  for _, rule in ipairs(rules.quotas or {}) do
    local quota = read_quota(gate, rule, tokens and tokens[rule.name], math.min(realigned or 0, now))
    if spent then
      quota.left, quota.start, quota.ends, quota.next, gate.changed = 0, now, ends_of(quota), 0, true
    end
    meters[rule.name] = quota
  end
  for name, text in pairs(tokens or {}) do
    if string.byte(name) == 79 then -- "O"
      meters[name] = read_budget(string.sub(name, 2), text)
      gate.told = gate.told or meters[name] and true
    end
  end
  gate.meters = next(meters) and meters
end

local function meter_at(meter, units)
  local at = meter.rule and meter.left < meter.most and meter.next or 0
  if units == 0 then
    return 0
  elseif meter.interval then -- the budget refills, as a window does
    at = meter.ends + (math.min(units, meter.left) - meter.left) * meter.interval
  elseif math.min(units, meter.most or units) > meter.left then
    at = meter.ends
  end
  return math.min(at, meter.asks or math.huge), at
end

local function charge_meters(gate, cost, moment)
  for name, meter in pairs(gate.meters) do
    local units, rule = math.min(cost[meter.unit] or 0, meter.most or math.huge), meter.rule
    local _, at = meter_at(meter, units)
    if units > 0 and not rule and at > moment then
      gate.meters[name], gate.probe = nil, gate.probe == '-' and 'p' or gate.probe
    elseif units > 0 and meter.interval then
      meter.ends = math.max(meter.ends, moment) + units * meter.interval
    elseif units > 0 then
      if rule then
        meter.start, meter.ends = meter.ends == 0 and now or meter.start, ends_of(meter)
      end
      if rule and rule.spread then -- spread what is left over the time that is left
        meter.next = math.ceil(instant + (meter.ends - instant) * units / math.max(units, meter.left))
      end
      meter.left = math.max(0, meter.left - units)
    end
    gate.changed = gate.changed or units > 0
  end
end

local function meters_text(gate)
  local text = ''
  for name, meter in pairs(gate.meters) do
    if not meter.rule then
      local interval = meter.interval and string.format('%.9f', meter.interval) or ''
      text = text .. string.format('%s:%.0f:%.17g:%.17g:%.0f:%s:%s:%s ', name, meter.left, meter.ends, meter.reset,
        meter.length, meter.most or '', interval, meter.asks or '')
    elseif meter.left < meter.most then
      text = text .. string.format('%s:%.0f:%.0f:%.0f:%.0f ', name, meter.most - meter.left, meter.start, meter.ends,
        meter.next)
    end
  end
  return text
end
