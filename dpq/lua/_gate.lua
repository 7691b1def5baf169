-- _gate: what a scope allows: a group, or "" for the whole queue. Layout: docs/design.md, "Limits".
-- Wants: instant, invisible, conf, limits, gates, tracked.
-- Gives: gate_of(scope), pace(gate, rate), opens_at(gate, cost, rank), full(gate), keep().
local gates_seen, rules_seen, own_limits, drift = {}, {}, nil, nil

local function rules_of(field)
  local rules = rules_seen[field]
  if rules == nil then
    local head, windows = string.match(redis.call('HGET', limits, field) or '', '^([^|]+)(.*)$')
    if head then
      local concurrency, floor, ceiling, step = string.match(head, '^(%S+) (%S+) (%S+) (%S+)$')
      rules = { concurrency = tonumber(concurrency), floor = tonumber(floor), ceiling = tonumber(ceiling),
        step = tonumber(step) }
      for rate, per, burst, reserve, rank in string.gmatch(windows, '|(%S+) (%S+) (%S+) (%S+) ([^|]+)') do
        rules[#rules + 1] = { rate = tonumber(rate), per = tonumber(per), burst = tonumber(burst),
          reserve = tonumber(reserve), rank = tonumber(rank) }
      end
    end
    rules_seen[field] = rules or false
  end
  return rules
end

-- One unit each `interval` ms, rounded up to what doubles of this size add exactly. Only the first window
-- learns its rate.
local function pace(gate, rate)
  gate.rate = rate
  for i, window in ipairs(gate.rules) do
    local units = i == 1 and rate or window.rate
    gate[i].interval = math.ceil(window.per / units * 4096) / 4096
    gate[i].most = math.max(1, math.ceil(units) + window.burst - 1)
  end
end

local function gate_of(scope)
  local gate = gates_seen[scope]
  if gate then
    return gate
  end
  local rules = rules_of(scope == '' and 'queue' or 'groups')
  if scope ~= '' then
    own_limits = own_limits or redis.call('HLEN', limits) - (rules and 1 or 0) - (rules_of('queue') and 1 or 0)
    rules = own_limits > 0 and rules_of('group:' .. scope) or rules
  end
  rules = rules or { concurrency = 0, ceiling = 0 }
  gate = { scope = scope, rules = rules, opens = 0, why = '-', probe = '-', rate = 0, since = 0, used = 0 }
  gates_seen[scope] = gate
  local opens, why, probe, rate, since, used, paid = string.match(redis.call('HGET', gates, scope) or '',
    '^(%S+) (%S) (%S+) (%S+) (%S+) (%S+)(.*)$')
  if opens then
    gate.opens, gate.why, gate.probe = tonumber(opens), why, probe
    gate.rate, gate.since, gate.used = tonumber(rate), tonumber(since), tonumber(used)
  end
  for i in ipairs(rules) do
    gate[i] = { paid = 0 }
  end
  if rules[1] then
    local learned = rules.ceiling > 0 and gate.rate > 0
    pace(gate, learned and math.max(rules.floor, math.min(rules.ceiling, gate.rate)) or rules[1].rate)
    local i = 1
    for until_ms in string.gmatch(paid or '', '%S+') do
      if gate[i] then -- the bound: a clock that stepped back, or a limit that was tighter
        local bound = instant + rules[i].per + rules[i].burst * gate[i].interval
        gate[i].paid = math.min(tonumber(until_ms), bound)
      end
      i = i + 1
    end
  end
  return gate
end

-- When a task of this cost may run, ms. One that costs more than a window ever grants takes all of it. A
-- rank (minus the score) below that of a reserve must leave the reserved units.
local function opens_at(gate, cost, rank)
  local at = gate.opens
  for i, window in ipairs(gate.rules) do
    local need = math.min(cost, gate[i].most)
    if window.reserve > 0 and rank < math.huge then
      if not drift then -- what aging has added to every priority since its beginning
        local aging, since = unpack(redis.call('HMGET', conf, 'aging', 'aging_since'))
        drift = since and aging * (instant - since) / 1000 or 0
      end
      need = need + (rank + drift < window.rank and window.reserve or 0)
    end
    at = math.max(at, gate[i].paid + (need - window.burst) * gate[i].interval)
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
