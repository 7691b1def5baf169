-- _gate: what a scope allows: a group, or "" for the whole queue. Layout: docs/design.md, "Limits".
-- Rules that cannot be read let nothing run, and a gate that cannot be read counts as spent. What a gate says of
-- windows stays (`rest`) while its rules cannot be read, or are lost.
-- Wants: instant, invisible, conf, limits, gates, tracked; rules_of, queue_texts (_rules); pace, recall (_pace).
-- Gives: gate_of(scope), opens_at(gate, cost, rank), full(gate).
local gates_seen, own_limits, aged, lacking = {}, nil, nil, nil

-- The limit of the queue (true), or that of some group (false), is lost. Then nothing runs, and what the gates say
-- holds again when it is back.
local function is_lost(of_queue)
  if not lacking then
    local limited, gated, format = unpack(redis.call('HMGET', conf, 'limited', 'gated', 'format'))
    local note = string.match(limited or '', '^q?%d+$') or string.match(gated or '', '^(q?%d+)=$') -- as in _noted
    local queue, count = string.match(note or '', '^(q?)(%d+)$')
    own_limits = own_limits or redis.call('HLEN', limits)
    lacking = { [true] = queue == 'q', [false] = not format or own_limits < (tonumber(count or 0) or 0) }
  end
  return lacking[of_queue]
end

local function gate_of(scope)
  if gates_seen[scope] then
    return gates_seen[scope]
  end
  local rules, own, text, last
  if scope == '' then
    queue_texts = queue_texts or redis.call('HMGET', conf, 'queue_rules', 'queue_gate')
    own, text = rules_of('queue'), queue_texts[2]
  else
    rules, text = rules_of('groups'), redis.call('HGET', gates, scope)
    own_limits = own_limits or redis.call('HLEN', limits)
    own = own_limits > (rules and 1 or 0) and rules_of('group:' .. scope)
  end
  rules = own or rules or { concurrency = 0, ceiling = 0 }
  local lost = text and not own and is_lost(scope == '')
  if lost then
    rules = { concurrency = rules.concurrency, ceiling = 0, unreadable = rules.unreadable }
  end
  local gate = { scope = scope, rules = rules, opens = 0, why = '-', probe = '-', rate = 0, since = 0, used = 0,
    learned = 0, beside = 0, slack = 0 }
  gates_seen[scope] = gate
  if text and string.byte(text) ~= 45 then -- after "-" it says only what the windows have granted
    local opens, why, probe, rate, since, used, paid = string.match(text,
      '^(%d[%d.]*) ([-lh]) (%S+) (%d[%d.]*) (%d[%d.]*) (%d[%d.]*) (.*)$')
    gate.opens, gate.why, gate.probe, text = tonumber(opens or 0) or 0, why or '-', probe or '-', ' ' .. (paid or '?')
    gate.rate, gate.since, gate.used = tonumber(rate or 0) or 0, tonumber(since or 0) or 0, tonumber(used or 0) or 0
  end
  local spent = text and string.find(text, '[^%d.: -]') -- nobody knows what it has granted
  if rules.unreadable or lost then
    gate.rest = string.match(text or '', '^%-? ?(.*)$')
  else
    gate.changed = text and not rules[1] and gate.opens == 0 and gate.probe == '-' -- of no use any more?
      and (tonumber(string.match(text, '([%d.]+) $') or 0) or 0) <= instant
  end
  recall(gate, text)
  for i, rule in ipairs(rules) do
    local _, found, paid = string.find(text or '', ' ' .. rule.ms .. ':([%d.]+)', last)
    local window, rate = { paid = tonumber(paid or 0) }, rule.rate
    last = found or last
    if i == 1 and rules.ceiling > 0 then -- the first window learns its rate
      rate = gate.rate > 0 and math.max(rules.floor, math.min(rules.ceiling, gate.rate)) or rate
      gate.rate = rate
    end
    pace(window, rule, rate, gate.slack)
    if spent or not window.paid then
      window.paid, gate.changed = instant + rule.per + (rule.burst - 1) * window.interval, true
    end
    local bound = instant + rule.per + (rule.slack or gate.slack) + rule.burst * window.interval
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
  if gate.rules.unreadable then -- it is looked at again then
    return math.max(at, instant + 30000)
  end
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
