-- rules: read the limit that is set for a scope, as a table. Layout: docs/storage.md, "Rules".
-- Needs: window_rule
-- Gives: parsed(text), the rules, or nil or false if the text cannot be read;
--        rules_of(field), the rules of a stored limit, or false without one. If the limit cannot be read, the rules
--        have `unreadable` = true;
--        bare(groups), which finds out by one call which of many groups have no limit of their own;
--        plain_rules(rules), rules as people see them: without the days on which a zone's clock changes, which would be
--        most of the text;
--        hash_of(field), the hash that holds the rules of a field of limits ("queue" for the queue), and their name;
--        stored_rules(hash, name), the stored rules, or false; and what stands, plain, "" for no limit;
--        `seen`, what this script has read of limits up to now. Its fields are: rules, by field; gates, by scope;
--        texts, the queue's rules (1) and gate (2) in conf; count, the number of limits of groups; leased, what is to
--        be stored in tracked (charge, keep); asks, the place of a caller that asks just now, and need not be called.
local seen = { rules = {}, gates = {}, leased = {} }

-- Makes the rules of a pool. The windows and the concurrency hold for each member.
local function pool_of(names, each)
  local pool = { concurrency = 0, ceiling = 0, weight = each.weight, members = {}, each = {},
    every = each, units = each.units }
  for name in string.gmatch(names, '\t([^\t]*)') do
    pool.members[#pool.members + 1], pool.each[name] = name, each
  end
  return pool
end

local function parsed(text)
  local rules = plain_limit(text)
  if rules then
    return rules
  end
  local plain, names = string.match(text, '^([^\t]*)(.*)$')
  local slots, weight, order, learning, windows = string.match(plain, '^(%d+)%*?([%d.]*)(!?)([^|]*)(.*)$')
  local floor, ceiling, step = string.match(learning or '', '^~([%d.]+) ([%d.]+) ([%d.]+)$')
  rules = { concurrency = tonumber(slots), weight = tonumber(weight), in_order = order == '!',
    floor = tonumber(floor or 0), ceiling = tonumber(ceiling or 0), step = tonumber(step or 0) }
  local sound = rules.concurrency and (learning == '' or floor and rules.floor and rules.ceiling and rules.step)
  for part in string.gmatch(windows or '', '|([^|]*)') do
    local window, quota = window_of(part), quota_of(part)
    if window then
      rules[#rules + 1] = window
      rules.units = window.unit ~= '' and { window.unit, unpack(rules.units or {}) } or rules.units
    elseif quota then
      rules.quotas = rules.quotas or {}
      rules.quotas[#rules.quotas + 1] = quota
    end
    sound = sound and (window or quota)
  end
  sound = sound and (learning == '' or rules[1])
    and (rules[1] or rules.concurrency > 0 or rules.quotas or rules.weight)
  return sound and (names == '' and rules or pool_of(names, rules))
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

local function bare(groups)
  local fields = {}
  for i, group in ipairs(groups) do
    fields[i] = 'group:' .. group
  end
  for i, text in ipairs(fields[1] and redis.call('HMGET', limits, unpack(fields)) or {}) do
    if not text then
      seen.rules[fields[i]] = false
    end
  end
end

local function plain_rules(rules)
  local windows, members = string.match(rules, '^([^\t]*)(.*)$')
  return string.gsub(windows, ' %-?%d+:%-?%d[%d:,%-]*', ' 0:0') .. members
end

local function hash_of(field)
  if field == 'queue' then
    return conf, 'queue_rules'
  end
  return limits, field
end

local function stored_rules(hash, name)
  local stored = redis.call('HGET', hash, name)
  return stored, plain_rules(stored or '')
end
