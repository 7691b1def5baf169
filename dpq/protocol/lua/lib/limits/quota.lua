-- quota: count what a limit grants in calendar periods. Its functions are made only for gates that have quotas. Layout:
-- docs/storage.md, "Quotas". Proof: docs/design.md, "Quotas".
-- Keys: conf
-- Needs: now, rules, period
-- Gives: hold_quotas(gate, tokens, spent), which makes gate.quotas from what the gate has counted (tokens). If `spent`,
--        all units count as spent. Each quota has `count`, `start` (from when it has counted), `reset` and `next`; all
--        are 0 before it has counted. Beside the quotas stand functions:
--        opens(cost, entitled), when the quotas let a task run, ms; entitled(rule) is when the task may take units of
--        the reserve;
--        ends(), when the first of their periods is over, ms;
--        charge(cost), which counts the cost of a grant;
--        text(), the text of the quotas in the gate;
--        end_of(rule), when the running period of a rule ends, ms;
--        recount(unit, before, after, token), which counts `after` units for a delivery instead of `before`, if it was
--        granted in the running period. It returns true if it has counted them.
local function hold_quotas(gate, tokens, spent)
  local rules, quotas = gate.rules.quotas, {}
  gate.quotas = quotas

  local function end_of(rule)
    local _, ends = period_of(rule, instant)
    return ends
  end
  quotas.end_of = end_of

  -- After the end of a period its count is over. But if the next period by the calendar begins before that end, the
  -- count stays: the clock was set back, or the zone has changed.
  local realigned = gate.rules == seen.rules.groups and redis.call('HGET', conf, 'realigned')
  for i, rule in ipairs(rules) do
    local count, begun, ends, at = string.match(tokens and tokens[rule.name] or '0:0:0', '^(%d+):(%d+):(%d+):?(%d*)$')
    local quota = { count = tonumber(count), start = tonumber(begun), reset = tonumber(ends), next = tonumber(at) or 0 }
    local anew = seen.realign or realigned and quota.start < math.min(tonumber(realigned) or 0, now)
    if spent then
      quota = { count = rule.amount, start = now, reset = end_of(rule), next = 0 }
      gate.changed = true
    elseif quota.reset > 0 and (instant >= quota.reset or instant < quota.start or quota.reset - quota.start > 2.8e9
      or anew) then
      local start, reset = period_of(rule, instant)
      if start < quota.reset then
        if reset ~= quota.reset or anew then
          quota.next = reset == quota.reset and quota.next or 0
          quota.start, quota.reset, gate.changed = now, reset, true
        end
      else
        quota = { count = 0, start = 0, reset = 0, next = 0 }
      end
    end
    quotas[i] = quota
  end

  function quotas.opens(cost, entitled)
    local at = 0
    for i, rule in ipairs(rules) do
      local quota, units = quotas[i], math.min(cost[rule.unit] or 0, rule.amount)
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

  function quotas.ends()
    local first = math.huge
    for i, rule in ipairs(rules) do
      first = math.min(first, quotas[i].reset > 0 and quotas[i].reset or end_of(rule))
    end
    return first
  end

  function quotas.charge(cost)
    for i, rule in ipairs(rules) do
      local quota, units = quotas[i], math.min(cost[rule.unit] or 0, rule.amount)
      if units > 0 then
        if quota.reset == 0 then
          quota.start, quota.reset = now, end_of(rule)
        end
        if rule.spread then -- spread what is left over the time that is left
          local left = math.max(units, rule.amount - quota.count)
          quota.next = math.ceil(instant + (quota.reset - instant) * units / left)
        end
        quota.count, gate.changed = quota.count + units, true
      end
    end
  end

  function quotas.text()
    local texts = {}
    for i, rule in ipairs(rules) do
      local quota = quotas[i]
      if quota.count > 0 then
        texts[#texts + 1] = string.format('%s:%.0f:%.0f:%.0f', rule.name, quota.count, quota.start, quota.reset)
          .. (rule.spread and string.format(':%.0f ', quota.next) or ' ')
      end
    end
    return table.concat(texts)
  end

  function quotas.recount(unit, before, after, token)
    local counts
    for i, rule in ipairs(rules) do
      local quota, grant = quotas[i], token / 1000
      if rule.unit == unit and quota.reset > 0 and grant >= quota.start and grant < quota.reset then
        local more = math.min(after, rule.amount) - math.min(before, rule.amount)
        quota.count, gate.changed, counts = math.max(0, quota.count + more), true, true
      end
    end
    return counts
  end
end
