-- plain_gate: read a gate that holds only grants, as most gates do. It finds what gate_of (gate) finds in such a text,
-- with less work. What follows from the rules alone is computed once for each script.
-- Needs: now, window_rule, pace, moving
-- Gives: read_plain(scope, rules, text), the gate without values for other fields (GATE);
--        GATE, a metatable with the values of fields that a gate has not set;
--        plain_gate(scope, rules, text), the gate, or nil if the text holds more than grants. Its field `plain` is true
--        until a field is set that is not in the gate yet. Its field `simple` is true as long as `plain`, if there is
--        no concurrency: then the windows alone say what may run. All other gates have neither field;
--        group_gate(group, text, costs_differ), the gate of a group, and how many of its leases are `out`; nil if it is
--        not of this kind, or tasks have costs; false if there is no limit and no gate;
--        plain_at(gate), when such windows let one unit start, ms.
local of_all
local EMPTY = { opens = 0, why = '-', probe = '-', rate = 0, since = 0, used = 0, learned = 0, beside = 0, slack = 0,
  last = 0, turn = 0, taught = 0, met = 0, row = 0, spent = '', reset = '' }

local function set_more(gate, name, value)
  gate.plain, gate.simple = false, false
  rawset(gate, name, value)
end

local GATE = { __index = EMPTY }
local PLAIN = { __index = EMPTY, __newindex = set_more }

local function is_plain(rules)
  if rules.plain == nil then
    rules.plain = rules[1] and rules.ceiling == 0 and not rules.quotas or false
    for _, rule in ipairs(rules) do
      pace(rule, rule, rule.rate, 0)
      rule.reach, rules.moves = reach_of(rule, rule, rule.slack or 0), rules.moves or rule.moving
    end
  end
  return rules.plain
end

-- Reads "- R:429s Gname:total ... name:paid ... |slots..."; only the gate of a limit of its own has totals.
local function read_plain(scope, rules, text)
  if not is_plain(rules) then
    return nil
  end
  local gate = { scope = scope, rules = rules, plain = true, simple = rules.concurrency == 0, changed = false,
    out = false, slack = 0 }
  local own, at, met = rules.own, 3, 0
  if text and own then
    met, at = string.match(text, '^R:(%d+) ()', 3)
  end
  gate.met = own and tonumber(met) or nil
  if text and not (at and string.byte(text) == 45) then
    return nil
  end
  for i, rule in ipairs(rules) do
    local name, total = rule.name, 0
    if text and own then
      name, total, at = string.match(text, '^G([^:]*):(%d+) ()', at)
    end
    if name ~= rule.name then
      return nil
    end
    gate[i] = { paid = 0, owed = 0, interval = rule.interval, most = rule.most, granted = own and tonumber(total) }
  end
  for i = 1, text and #rules or 0 do
    local rule, window, name, paid, more = rules[i], gate[i], nil, nil, nil
    name, paid, more, at = string.match(text, '^([^:]*):([%d.]+)([%d.:]*) ()', at)
    paid = name == rule.name and tonumber(paid)
    if not paid or paid > instant + rule.reach and not rule.moving then
      return nil
    end
    window.paid, window.owed, window.more = paid, paid, more ~= '' and more or nil
  end
  for i, rule in ipairs(rules.moves and rules or {}) do
    if rule.moving then
      local body
      body, at = string.match(text or '|', '^|([^|]*)()', text and at or 1)
      if not body then
        return nil
      end
      hold_moving(gate, i, body)
    end
  end
  return not (text and at <= #text) and gate or nil
end

local function plain_gate(scope, rules, text)
  local gate = read_plain(scope, rules, text)
  return gate and setmetatable(gate, PLAIN)
end

local function group_gate(group, text, costs_differ)
  local texts = redis.call('HMGET', limits, 'groups', 'group:' .. group)
  if not (texts[1] or texts[2] or text) then
    return false
  end
  local rules = costs_differ ~= '1' and (not texts[2] and of_all or plain_limit(texts[2] or texts[1] or ''))
  if not rules then
    return nil
  end
  rules.own = texts[2] and true
  of_all = not texts[2] and rules or of_all
  local gate = read_plain(group, rules, text)
  if gate and rules.concurrency > 0 then
    gate.out = redis.call('ZLEXCOUNT', tracked, '[' .. group .. '\t', '(' .. group .. '\n')
  end
  return gate
end

local function plain_at(gate)
  local at = 0
  for i, rule in ipairs(gate.rules) do
    at = math.max(at, rule.moving and moving_opens(gate, i, 1) or window_at(gate[i], rule, 1))
  end
  return at
end
