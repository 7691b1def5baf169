-- plain_gate: read a gate that holds only grants, as most gates do. It finds what gate_of (gate) finds in such a text,
-- with less work. What follows from the rules alone is computed once for each script.
-- Needs: now, pace
-- Gives: GATE, a metatable with the values of fields that a gate has not set;
--        plain_gate(scope, rules, text), the gate, or nil if the text holds more than grants. Its field `plain` is true
--        until a field is set that is not in the gate yet. Its field `simple` is true as long as `plain`, if there is
--        no concurrency: then the windows alone say what may run. All other gates have neither field;
--        plain_at(gate), when such windows let one unit start, ms;
--        pay_all(gate), which charges all of them for one unit.
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
      rules.plain = rules.plain and not rule.moving
      if rules.plain then
        pace(rule, rule, rule.rate, 0)
        rule.reach = reach_of(rule, rule, rule.slack or 0)
        rule.total, rule.grants = '^ G' .. rule.name .. ':(%d+)()', '^ ' .. rule.name .. ':([%d.]+)([%d.:]*)()'
      end
    end
  end
  return rules.plain
end

local function plain_gate(scope, rules, text)
  if not is_plain(rules) then
    return nil
  end
  local gate = { scope = scope, rules = rules, plain = true, simple = rules.concurrency == 0, changed = false,
    out = false }
  local own, met, at = rules.own, 0, nil
  if text then
    met, at = string.match(text, own and '^%- R:(%d+)()' or '^(%-)()')
  end
  gate.met = own and tonumber(met) or nil
  for i = 1, #rules do
    gate[i] = { paid = 0, owed = 0, interval = rules[i].interval, most = rules[i].most }
    if own then
      local total = 0
      if text then
        total, at = string.match(text, rules[i].total, at)
      end
      gate[i].granted = tonumber(total)
    end
  end
  for i = 1, text and at and #rules or 0 do
    local window, paid, more = gate[i], nil, nil
    paid, more, at = string.match(text, rules[i].grants, at)
    window.paid = tonumber(paid or '')
    if not window.paid or window.paid > instant + rules[i].reach then
      return nil
    end
    window.owed, window.more = window.paid, more ~= '' and more or nil
  end
  if text and not (at and string.sub(text, at) == ' ') then
    return nil
  end
  return setmetatable(gate, PLAIN)
end

local function plain_at(gate)
  local at = 0
  for i, rule in ipairs(gate.rules) do
    at = math.max(at, window_at(gate[i], rule, 1))
  end
  return at
end

local function pay_all(gate)
  for i = 1, #gate.rules do
    local window = gate[i]
    pay_window(window, 1, instant)
    window.granted = window.granted and window.granted + 1
  end
  gate.out = gate.out and gate.out + 1
end
