-- estimate: compute what is reserved of a unit that a task does not name. It is the 95th percentile of what the last
-- twenty tasks that did not name the unit have spent. Until there are twenty, the first value of the limit fills the
-- missing places. The spent values stand in a gate as "Etokens:812:790 ", the newest last.
-- Needs: window_rule
-- Gives: estimated(cost, gate, queue), for what weigh (cost) gives. `gate` is the gate of a group, `queue` that of the
--        queue. For the queue alone, `gate` is its gate, and `queue` is nil. It returns the cost with what is reserved,
--        and the units that were added, or nil;
--        estimate_change(text, added), for a cost as text. It returns what is to change in the record, or true if
--        nothing is;
--        note_spent(gate, unit, units), which stores a spent value.
local VALUES, none = 20, {}

local function values_of(gate, unit)
  local values, row = {}, gate.spent ~= '' and string.match(gate.spent, 'E' .. unit .. '([:%d]*) ')
  for value in string.gmatch(row or '', '%d+') do
    values[#values + 1] = math.min(tonumber(value), MOST_UNITS)
  end
  return values
end

local function reserves(gate, known)
  known.reserves = false
  for _, rule in ipairs(gate.rules.every or gate.rules) do -- for a pool, take the rules of each member
    if rule.unit ~= '' then
      local values = values_of(gate, rule.unit)
      if values[1] or rule.estimate then
        for n = #values + 1, VALUES do
          values[n] = rule.estimate or 0
        end
        table.sort(values)
        known.reserves = known.reserves or {}
        known.reserves[rule.unit] = math.max(known.reserves[rule.unit] or 0, values[VALUES - 1])
      end
    end
  end
end

local function lacks(cost, rules)
  for _, unit in ipairs(rules.units or none) do
    if not cost[unit] then
      return true
    end
  end
end

local function fill(cost, added, gate)
  local known = gate.spent == '' and gate.rules or gate -- without spent values, only the rules matter
  if known.reserves == nil then
    reserves(gate, known)
  end
  for unit, units in pairs(known.reserves or none) do
    if not cost[unit] and not (added and added[unit]) then
      added = added or {}
      added[unit] = units
    end
  end
  return added
end

local function estimated(cost, gate, queue)
  local sum
  local added = lacks(cost, gate.rules) and fill(cost, nil, gate) or nil
  added = queue and lacks(cost, queue.rules) and fill(cost, added, queue) or added
  if not added then
    return cost
  end
  sum = {}
  for unit, units in pairs(cost) do
    sum[unit] = units
  end
  for unit, units in pairs(added) do
    sum[unit] = units
  end
  return sum, added
end

local function with_estimates(text, added)
  local names = {}
  for unit, units in pairs(added or {}) do
    names[#names + 1] = units > 0 and unit or nil
  end
  table.sort(names)
  text = string.gsub(text, ',[^,]*~[^,]*', '')
  for _, unit in ipairs(names) do
    text = text .. string.format(',%s~%.0f', unit, added[unit])
  end
  return text
end

local function estimate_change(text, added) -- the record names what this delivery reserves
  local cost = with_estimates(text, added)
  return cost == text or { cost = cost }
end

local function note_spent(gate, unit, units)
  local values = values_of(gate, unit)
  values[#values + 1] = units
  if #values > VALUES then
    table.remove(values, 1)
  end
  for n, value in ipairs(values) do
    values[n] = string.format('%.0f', value)
  end
  local others = string.gsub(gate.spent, 'E' .. unit .. ':[:%d]* ', '')
  gate.spent = others .. 'E' .. unit .. ':' .. table.concat(values, ':') .. ' '
  gate.changed, gate.reserves = true, nil
end
