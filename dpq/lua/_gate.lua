-- _gate: what a scope allows: a group, or "" for the whole queue. Layout: docs/design.md, "Limits".
-- Wants: instant, invisible, conf, limits, gates, tracked. What conf says of the queue may be put into
--        queue_texts: its rules and its gate.
-- Gives: gate_of(scope), pace(window, rule, rate), opens_at(gate, cost, rank), full(gate).
local gates_seen, rules_seen, own_limits, drift, queue_texts = {}, {}, nil, nil, nil

local function rules_of(field)
  local rules = rules_seen[field]
  if rules == nil then
    local text = field == 'queue' and queue_texts[1] or field ~= 'queue' and redis.call('HGET', limits, field)
    local concurrency, rate, per, burst = string.match(text or '', '^(%d+)|(%S+) (%d+) (%d+)$')
    if rate then
      rules = { concurrency = tonumber(concurrency), ceiling = 0,
        { rate = tonumber(rate), per = tonumber(per), burst = tonumber(burst), reserve = 0 } }
    elseif text then
      local learning, windows, floor, ceiling, step
      concurrency, learning, windows = string.match(text, '^(%d+)~?([^|]*)(.*)$')
      floor, ceiling, step = string.match(learning, '^(%S+) (%S+) (%S+)$')
      rules = { concurrency = tonumber(concurrency), floor = tonumber(floor or 0), ceiling = tonumber(ceiling or 0),
        step = tonumber(step or 0) }
      for units, ms, most, kept in string.gmatch(windows, '|(%S+) (%d+) (%d+) ?([^|]*)') do
        local reserve, rank = string.match(kept, '^(%d+) (%S+)$')
        rules[#rules + 1] = { rate = tonumber(units), per = tonumber(ms), burst = tonumber(most),
          reserve = tonumber(reserve or 0), rank = tonumber(rank or 0) }
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
  local gate = gates_seen[scope]
  if gate then
    return gate
  end
  local rules, text
  if scope == '' then
    queue_texts = queue_texts or redis.call('HMGET', conf, 'queue_rules', 'queue_gate')
    rules, text = rules_of('queue'), queue_texts[2]
  else
    rules, text = rules_of('groups'), redis.call('HGET', gates, scope)
    own_limits = own_limits or redis.call('HLEN', limits) - (rules and 1 or 0)
    rules = own_limits > 0 and rules_of('group:' .. scope) or rules
  end
  rules = rules or { concurrency = 0, ceiling = 0 }
  gate = { scope = scope, rules = rules, opens = 0, why = '-', probe = '-', rate = 0, since = 0, used = 0 }
  gates_seen[scope] = gate
  if text and string.byte(text) ~= 45 then -- after "-" it says only what the windows have granted
    local opens, why, probe, rate, since, used, paid = string.match(text,
      '^(%S+) (%S) (%S+) (%S+) (%S+) (%S+) (.*)$')
    gate.opens, gate.why, gate.probe = tonumber(opens), why, probe
    gate.rate, gate.since, gate.used, text = tonumber(rate), tonumber(since), tonumber(used), paid
  end
  local next_paid = text and string.gmatch(text, '%d[%d.]*')
  for i, rule in ipairs(rules) do
    local window, rate = { paid = tonumber(next_paid and next_paid() or 0) }, rule.rate
    if i == 1 and rules.ceiling > 0 then -- the first window learns its rate
      rate = gate.rate > 0 and math.max(rules.floor, math.min(rules.ceiling, gate.rate)) or rate
      gate.rate = rate
    end
    pace(window, rule, rate)
    local bound = instant + rule.per + rule.burst * window.interval
    if window.paid > bound then -- a clock has stepped back, or the limit was tighter
      window.paid, gate.changed = bound, true
    end
    gate[i] = window
  end
  return gate
end

-- When a task of this cost may run, ms. One that costs more than a window ever grants takes all of it. A
-- rank (minus the score) below that of a reserve must leave the reserved units.
local function opens_at(gate, cost, rank)
  local at = gate.opens
  for i, rule in ipairs(gate.rules) do
    local need = math.min(cost, gate[i].most)
    if rule.reserve > 0 and rank < math.huge then
      if not drift then -- what aging has added to every priority since its beginning
        local aging, since = unpack(redis.call('HMGET', conf, 'aging', 'aging_since'))
        drift = since and aging * (instant - since) / 1000 or 0
      end
      need = need + (rank + drift < rule.rank and rule.reserve or 0)
    end
    at = math.max(at, gate[i].paid + (need - rule.burst) * gate[i].interval)
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
  if most > 0 and scope == '' then
    gate.out = gate.out or redis.call('ZCARD', invisible)
  end
  return most > 0 and most <= (gate.out or redis.call('ZLEXCOUNT', tracked, '[' .. scope .. '\t', '(' .. scope .. '\n'))
end
