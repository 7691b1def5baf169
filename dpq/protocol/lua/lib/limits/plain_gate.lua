-- plain_gate: read the windows of a gate that holds nothing beside grants, as most do. It gives what gate_of (gate)
-- finds in such a text, with less work: what follows from the rules alone is computed once for each script.
-- Needs: now, pace
-- Gives: plain_windows(gate, rules, text): true if it has set the windows of the gate; false if there is more to it.
local function shape_of(rules)
  local totals, shape = rules.own and '^%- R:(%d+)' or '^%-', ''
  for _, rule in ipairs(rules) do
    if rule.moving then
      return false
    end
    totals = rules.own and totals .. ' G' .. rule.name .. ':(%d+)' or totals
    shape = shape .. ' ' .. rule.name .. ':([%d.]+)([%d.:]*)'
    pace(rule, rule, rule.rate, 0)
    rule.reach = reach_of(rule, rule, rule.slack or 0)
  end
  return rules[1] and rules.ceiling == 0 and not rules.quotas and totals .. shape .. ' $'
end

local function plain_windows(gate, rules, text)
  if rules.shape == nil then
    rules.shape = shape_of(rules)
  end
  local parts = text and rules.shape and { string.match(text, rules.shape) }
  if not rules.shape or parts and not parts[1] then
    return false
  end
  local skipped = rules.own and 1 + #rules or 0
  gate.met = parts and rules.own and tonumber(parts[1]) or 0
  for i, rule in ipairs(rules) do
    local paid, more = 0, nil
    if parts then
      paid, more = tonumber(parts[skipped + 2 * i - 1]), parts[skipped + 2 * i]
      more = more ~= '' and more or nil
    end
    if not paid or paid > instant + rule.reach then
      return false
    end
    gate[i] = { paid = paid, owed = paid, more = more, first = nil, interval = rule.interval, most = rule.most,
      granted = parts and rules.own and tonumber(parts[1 + i]) or 0 }
  end
  return true
end
