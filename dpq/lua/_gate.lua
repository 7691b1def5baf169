-- _gate: what a scope allows: a group, or "" for the whole queue. Layout: docs/design.md, "Limits".
-- Wants: instant, invisible, conf, limits, gates, tracked. What conf says of the queue may be put into
--        queue_texts: its rules and its gate.
-- Gives: gate_of(scope), pace(window, rule, rate), opens_at(gate, cost, rank), full(gate).
local gates_seen, rules_seen, own_limits, aged, queue_texts = {}, {}, nil, nil, nil

local function rules_of(field)
  local rules = rules_seen[field]
  if rules == nil then
    local text = field == 'queue' and queue_texts[1] or field ~= 'queue' and redis.call('HGET', limits, field)
    local concurrency, rate, per, burst = string.match(text or '', '^(%d+)|([1-9]%d*%.?%d*) ([1-9]%d*) ([1-9]%d*)$')
    if rate then
      rules = { concurrency = tonumber(concurrency), ceiling = 0,
        { rate = tonumber(rate), per = tonumber(per), ms = per, burst = tonumber(burst), reserve = 0 } }
    elseif text then
      local slots, learning, windows = string.match(text, '^(%d+)~?([^|]*)(.*)$')
      local floor, ceiling, step = string.match(learning or '', '^(%S+) (%S+) (%S+)$')
      rules = { concurrency = tonumber(slots or 0), floor = tonumber(floor or 0) or 0,
        step = tonumber(step or 0) or 0, ceiling = tonumber(ceiling or 0) or 0 }
      for units, ms, most, kept in string.gmatch(windows or '', '|(%S+) ([1-9]%d*) ([1-9]%d*) ?([^|]*)') do
        local most_units, reserve, rank = tonumber(units) or 0, string.match(kept, '^(%d+) (%S+)$')
        rules[#rules + 1] = most_units > 0 and { rate = most_units, per = tonumber(ms), ms = ms,
          burst = tonumber(most), reserve = tonumber(reserve or 0), rank = tonumber(rank or 0) or 0 } or nil
      end
    end
    rules_seen[field] = rules or false
  end
  return rules
end

-- One unit each `interval` ms, rounded up to what doubles of this size add exactly.
local function pace(window, rule, rate)
  window.interval = math.ceil(rule.per / rate * 4096) / 4096
  window.most = math.max(1, math.ceil(rate) + rule.burst - 1)
end

local function gate_of(scope)
  if gates_seen[scope] then
    return gates_seen[scope]
  end
  local rules, text, last
  if scope == '' then
    queue_texts = queue_texts or redis.call('HMGET', conf, 'queue_rules', 'queue_gate')
    rules, text = rules_of('queue'), queue_texts[2]
  else
    rules, text = rules_of('groups'), redis.call('HGET', gates, scope)
    own_limits = own_limits or redis.call('HLEN', limits) - (rules and 1 or 0)
    rules = own_limits > 0 and rules_of('group:' .. scope) or rules
  end
  rules = rules or { concurrency = 0, ceiling = 0 }
  local gate = { scope = scope, rules = rules, opens = 0, why = '-', probe = '-', rate = 0, since = 0, used = 0 }
  gates_seen[scope] = gate
  if text and string.byte(text) ~= 45 then -- after "-" it says only what the windows have granted
    local opens, why, probe, rate, since, used, paid = string.match(text,
      '^(%S+) (%S) (%S+) (%S+) (%S+) (%S+) (.*)$')
    gate.opens, gate.why, gate.probe, text = tonumber(opens or 0) or 0, why or '-', probe or '-', ' ' .. (paid or '')
    gate.rate, gate.since, gate.used = tonumber(rate or 0) or 0, tonumber(since or 0) or 0, tonumber(used or 0) or 0
  end
  gate.changed = text and not rules[1] and gate.opens == 0 and gate.probe == '-' -- of no use any more?
    and tonumber(string.match(text, '([%d.]+) $') or 0) <= instant
  for i, rule in ipairs(rules) do
    local _, found, paid = string.find(text or '', ' ' .. rule.ms .. ':([%d.]+)', last)
    local window, rate = { paid = tonumber(paid or 0) }, rule.rate
    last = found or last
    if i == 1 and rules.ceiling > 0 then -- the first window learns its rate
      rate = gate.rate > 0 and math.max(rules.floor, math.min(rules.ceiling, gate.rate)) or rate
      gate.rate = rate
    end
    pace(window, rule, rate)
    local bound = math.max(instant, gate.opens) + rule.per + rule.burst * window.interval
    if window.paid > bound then -- a clock has stepped back, or the limit was tighter
      window.paid, gate.changed = bound, true
    end
    -- What is owed: at the end of a 429 one unit is there, and the others follow at their pace.
    window.owed = math.max(window.paid, gate.why == 'l' and gate.opens + (rule.burst - 1) * window.interval or 0)
    gate[i] = window
  end
  return gate
end

-- When a task of this cost may run, ms. One that costs more than a window ever grants takes all of it. A
-- rank (minus the score) below that of a reserve must leave the reserved units.
local function opens_at(gate, cost, rank)
  local at = gate.opens
  for i, rule in ipairs(gate.rules) do
    local paid = gate[i].owed + (math.min(cost, gate[i].most) - rule.burst) * gate[i].interval
    if rule.reserve > 0 and rank < math.huge then
      if not aged then
        local rate, since = unpack(redis.call('HMGET', conf, 'aging', 'aging_since'))
        aged = { rate = since and tonumber(rate) or 0, since = tonumber(since or 0) or 0 }
      end
      local missing = rule.rank - rank - aged.rate * (instant - aged.since) / 1000
      if missing > 0 then -- until the units are there, or until it has aged enough
        local grown = aged.rate > 0 and instant + missing / aged.rate * 1000 or math.huge
        paid = math.min(paid + rule.reserve * gate[i].interval, math.max(paid, grown))
      end
    end
    at = math.max(at, paid)
  end
  return at
end

-- As many leases are out as may be, or the probe after a 429 is.
local function full(gate)
  local scope, most = gate.scope, gate.rules.concurrency
  if gate.probe ~= '-' and gate.probe ~= 'p' then
    if gate.busy or redis.call('ZSCORE', invisible, gate.probe) then
      return true
    end
    gate.probe, gate.changed = '-', true
  end
  gate.out = gate.out or most > 0 and scope == '' and redis.call('ZCARD', invisible) or nil
  return most > 0 and most <= (gate.out or redis.call('ZLEXCOUNT', tracked, '[' .. scope .. '\t', '(' .. scope .. '\n'))
end
