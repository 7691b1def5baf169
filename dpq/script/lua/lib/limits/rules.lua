-- rules: read the limit that is set for a scope, as a table. Layout: docs/storage.md, "Rules".
-- Needs: window_rule
-- Gives: parsed(text), the rules, or nil or false if the text cannot be read;
--        rules_of(field), the rules of a stored limit, or false without one. If the limit cannot be read, the rules
--        have `unreadable` = true;
--        `seen`, what this script has read of limits up to now. Its fields are: rules, by field; gates, by scope;
--        texts, the queue's rules (1) and gate (2) in conf; count, the number of limits of groups; leased, what is to
--        be stored in tracked (charge, keep); asks, the place of a caller that asks just now, and need not be called.
local seen = { rules = {}, gates = {}, leased = {} }

-- Reads a number within bounds, which are those of `set_limit`.
local function within(text, least, most)
  local value = tonumber(text or '')
  return value and value >= least and value <= most and value
end

-- Makes the rules of a pool. The windows and the concurrency hold for each member.
local function pool_of(names, each)
  local pool = { concurrency = 0, ceiling = 0, weight = each.weight, members = {}, each = {},
    every = each, units = each.units }
  for name in string.gmatch(names, '\t([^\t]*)') do
    if #name == 0 or #name > 100 or pool.each[name] or #pool.members == 64 then
      return false
    end
    pool.members[#pool.members + 1], pool.each[name] = name, each
  end
  return pool
end

local function parsed(text)
  local rules = plain_limit(text)
  if rules then
    return rules
  end
  local slots, learning, windows, plain, names
  plain, names = string.match(text, '^([^\t]*)(.*)$')
  slots, learning, windows = string.match(plain, '^(%d+)([^|]*)(.*)$')
  local weight, rest_of_head = string.match(learning or '', '^%*(%d[%d.]*)(.*)$')
  learning = rest_of_head or learning
  local in_order = string.byte(learning or '') == 33 -- "!"
  learning = in_order and string.sub(learning, 2) or learning
  local floor, ceiling, step = string.match(learning or '', '^~(%d[%d.]*) (%d[%d.]*) (%d[%d.]*)$')
  rules = { concurrency = within(slots, 0, 1000000), floor = within(floor, 0.001, MOST_UNITS) or 0,
    ceiling = within(ceiling, 0.001, MOST_UNITS) or 0, step = within(step, 0.001, MOST_UNITS) or 0 }
  local learns = rules.floor > 0 and rules.step > 0 and rules.floor <= rules.ceiling
  local sound = rules.concurrency and (learning == '' or learns)
  for part in string.gmatch(windows or '', '|([^|]*)') do
    local rate, per, unit, burst, kept = string.match(part,
      '^(%d[%d.]*) ([1-9]%d*)([a-z0-9_]*) ([1-9m]%d*)(.*)$')
    local slowest, moves = learns and not rules[1] and rules.floor or MOST_UNITS, burst == 'm'
    local window = moves and moving_of(rate, per, unit) or rate and window_of(rate, per, unit, burst, slowest)
    local quota = not rate and quota_of(part)
    if quota then
      rules.quotas = rules.quotas or {}
      rules.quotas[#rules.quotas + 1] = quota
    end
    local before, estimate = string.match(kept or '', '^(.-) ~(%d+)$')
    if window and before then
      kept, window.estimate = before, within(estimate, 1, MOST_UNITS)
      sound = sound and window.estimate and unit ~= ''
    end
    local rest, slack = string.match(kept or '', '^(.-) %+(%d+)$')
    if window and rest then
      kept, window.slack = rest, within(slack, 0, 3600000)
      sound = sound and window.slack
    end
    if window and kept ~= '' then
      local reserve, rank = string.match(kept, '^ ([1-9]%d*) (%-?%d[%d.e+-]*)$')
      window.reserve, window.rank = within(reserve, 1, (moves and window.rate or window.burst) - 1),
        within(rank, -2 ^ 63, 2 ^ 63)
      window.asked = true
    end
    sound = sound and (quota or window and window.reserve and (window.reserve == 0 or window.rank))
    if not sound then
      break
    end
    rules[#rules + 1] = window
    rules.units = window and unit ~= '' and { unit, unpack(rules.units or {}) } or rules.units
  end
  if learning ~= '' then
    sound = sound and rules[1] and rules[1].rate >= rules.floor and rules[1].rate <= rules.ceiling
      and not rules[1].moving
  end
  sound = sound and #rules <= 8 and #(rules.quotas or {}) <= 8
    and (rules[1] or rules.concurrency > 0 or rules.quotas or weight)
  rules.weight = weight and within(weight, 0.01, 100)
  rules.in_order = in_order
  sound = sound and (not weight or rules.weight) and (not in_order or rules.concurrency == 1 and names == '')
  return sound and (names == '' and rules or pool_of(names, rules)) or false
end

local function rules_of(field)
  local rules = seen.rules[field]
  if rules == nil then
    local text = field == 'queue' and seen.texts[1] or field ~= 'queue' and redis.call('HGET', limits, field)
    rules = text and parsed(text)
    if text and (not rules or rules.members and string.byte(field, 6) ~= 58) then -- only a named group has members
      rules = { unreadable = true, concurrency = 0, ceiling = 0 }
    end
    rules = rules or false
    if rules then
      local each, own = rules.every or rules, field ~= 'groups'
      rules.text, rules.own, each.own = text, own, own
    end
    seen.rules[field] = rules
  end
  return rules
end
