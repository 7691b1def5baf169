-- quota: count what a limit grants in calendar periods. Layout and proof: docs/design.md, "Quotas".
-- Needs: now, rules, period
-- Gives: hold_quotas(gate, tokens, spent), which reads what a gate has counted (tokens); quotas_open(gate, cost,
--        entitled), when they let a task run, ms, where entitled(rule) is when it may take of the reserve;
--        quotas_end(gate), when the first of their periods is over, ms; charge_quotas(gate, cost); quota_counts(gate),
--        as stored; recount(gate, unit, before, after, token), which counts other units for a delivery than before, if
--        it was granted in the running period; true if it counts. A period that has not begun has start and reset 0.
-- After the end of a period its count is over. It stays while the next one, by the calendar, would have begun before:
-- the clock was set back, or the zone is another one.
local function hold_quotas(gate, tokens, spent)
  gate.quotas = {}
  for i, rule in ipairs(gate.rules.quotas) do
    local count, start, reset, at = string.match(tokens and tokens[rule.name] or '0:0:0', '^(%d+):(%d+):(%d+):?(%d*)$')
    local quota = { count = tonumber(count), start = tonumber(start), reset = tonumber(reset), next = tonumber(at) or 0 }
    if spent then
      quota = { count = rule.amount, next = 0 }
      quota.start, quota.reset = period_of(rule, instant)
      gate.changed = true
    elseif quota.reset > 0 and (instant >= quota.reset or instant < quota.start or quota.reset - quota.start > 2.8e9
      or seen.realign) then
      local begun, ends = period_of(rule, instant)
      if begun < quota.reset then
        quota.next = ends == quota.reset and quota.next or 0
        quota.start, quota.reset, gate.changed = begun, ends, true
      else
        quota = { count = 0, start = 0, reset = 0, next = 0 }
      end
    end
    gate.quotas[i] = quota
  end
end

local function quotas_open(gate, cost, entitled)
  local at = 0
  for i, rule in ipairs(gate.rules.quotas) do
    local quota, units = gate.quotas[i], math.min(cost[rule.unit] or 0, rule.amount)
    if units > 0 and quota.count > 0 then
      local may = rule.spread and quota.next or 0
      if quota.count + units > rule.amount then
        may = quota.reset
      elseif quota.count + units + rule.reserve > rule.amount then
        may = math.max(may, math.min(quota.reset, entitled(rule)))
      end
      at = math.max(at, may)
    end
  end
  return at
end

local function quotas_end(gate)
  local first = math.huge
  for i, rule in ipairs(gate.rules.quotas or {}) do
    local _, ends = period_of(rule, instant)
    first = math.min(first, gate.quotas[i].reset > 0 and gate.quotas[i].reset or ends)
  end
  return first
end

local function charge_quotas(gate, cost)
  for i, rule in ipairs(gate.rules.quotas) do
    local quota, units = gate.quotas[i], math.min(cost[rule.unit] or 0, rule.amount)
    if units > 0 then
      if quota.reset == 0 then
        quota.start, quota.reset = period_of(rule, instant)
      end
      if rule.spread then -- what is left is paced over the time left
        local left = math.max(units, rule.amount - quota.count)
        quota.next = math.ceil(instant + (quota.reset - instant) * units / left)
      end
      quota.count, gate.changed = quota.count + units, true
    end
  end
end

local function quota_counts(gate)
  local texts = {}
  for i, rule in ipairs(gate.rules.quotas) do
    local quota = gate.quotas[i]
    if quota.count > 0 then
      texts[#texts + 1] = string.format('%s:%.0f:%.0f:%.0f', rule.name, quota.count, quota.start, quota.reset)
        .. (rule.spread and string.format(':%.0f ', quota.next) or ' ')
    end
  end
  return table.concat(texts)
end

local function recount(gate, unit, before, after, token)
  local counts
  for i, rule in ipairs(gate.rules.quotas or {}) do
    local quota, grant = gate.quotas[i], token / 1000
    if rule.unit == unit and quota.reset > 0 and grant >= quota.start and grant < quota.reset then
      local more = math.min(after, rule.amount) - math.min(before, rule.amount)
      quota.count, gate.changed, counts = math.max(0, quota.count + more), true, true
    end
  end
  return counts
end
