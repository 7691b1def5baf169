-- true_up: replace what a delivery was charged by what the client reports as spent, once for each unit. Why that keeps
-- to the bound: docs/design.md, "True-up".
-- Needs: window_rule, notes, gate, give_back, estimate, open_or_close, moving_spent, shares, go_on
-- Gives: true_up(task, report, implied), where `report` has the spent units: "tokens=812,=1". The unit "" is
--        requests. It returns true if the report has a unit for the first time. Then the note of the task has changed:
--        the caller must store the record (notes), and call admit (place). If `implied`, the units are not counted as
--        spent values (estimate);
--        scopes_of(group, member), the scopes that count a delivery: the queue, its group, and the member of a pool; ""
--        or nil stands for none;
--        nothing_of(cost), a report of 0 for each unit of the cost except requests;
--        reserved_of(task), what the delivery of the task was charged, as a cost.

-- Reads the units that a delivery was charged, and which of these units the cost names.
local function charged(text)
  local units, named = { [''] = tonumber(string.match(text, '^%d+')) }, { [''] = true }
  for unit, sign, number in string.gmatch(text, ',([a-z][a-z0-9_]*)([=~])(%d+)') do
    units[unit], named[unit] = tonumber(number), sign == '='
  end
  return units, named
end

local function nothing_of(cost)
  return (string.gsub(string.match(cost, ',.*$') or '', '[=~]%d+', '=0'))
end

local function scopes_of(group, member)
  local scopes = { '', group ~= '' and group or nil }
  scopes[#scopes + 1] = (member or '') ~= '' and group .. '\t' .. member or nil
  return scopes
end

local function reserved_of(task)
  local charged_then = string.match(live_note(task, SPENT) or '', '^%S* (%S+)$')
  return charged_then or task.cost -- without such a note the cost is still the same
end

-- Corrects what the group has spent, if groups take turns by these units.
local function correct_share(group, reserved, fresh)
  local unit = unit_of(redis.call('HGET', conf, 'fairness'))
  if unit and fresh[unit] then
    go_on() -- a report may be the first write
    local more = math.max(fresh[unit], 1) - math.max(reserved[unit] or 1, 1)
    charge_share(group, more / weight_of(group))
  end
end

local function true_up(task, report, implied)
  local known, cost = string.match(live_note(task, SPENT) or '', '^(%S*) ?(%S*)$')
  local reserved, named = charged((cost or '') ~= '' and cost or task.cost)
  local fresh, notes = {}, known ~= '' and { known } or {}
  for unit, number in string.gmatch(report, '([a-z0-9_]*)=(%d+)') do
    if not fresh[unit] and not string.find(',' .. (known or ''), ',' .. unit .. '=', 1, true) then
      fresh[unit] = math.min(tonumber(number), MOST_UNITS)
      notes[#notes + 1] = string.format('%s=%.0f', unit, fresh[unit])
    end
  end
  if not next(fresh) then
    return false
  end
  for _, scope in ipairs(scopes_of(task.group, live_note(task, RUNS_AS))) do
    local gate, token, noted = gate_of(scope), tonumber(task.token), {}
    local group = string.match(scope, '^[^\t]*')
    for i, rule in ipairs(gate.rules) do
      local unit, most = rule.unit, gate[i].most
      local before, after = math.min(reserved[unit] or 0, most), fresh[unit] and math.min(fresh[unit], most)
      if rule.moving then -- a moving window counts all that was spent, however much
        local more = fresh[unit] and fresh[unit] - (reserved[unit] or 0) or 0
        local freed = more ~= 0 and recount(gate, i, token, more)
        stirred[group] = freed or more > 0 and group ~= '' or stirred[group]
      elseif after and after < before then
        stirred[group] = give_back(gate, i, token, before - after) or stirred[group]
      elseif after and after > before then
        owe(gate, i, token, before, after - before)
        stirred[group] = group ~= '' or stirred[group]
      end
    end
    for _, meter in pairs(gate.meters or {}) do -- what was granted in the running period of a quota
      local units, most = fresh[meter.unit], meter.most
      if units and meter.rule and token >= meter.start * 1000 and token < meter.ends * 1000 then
        local more = math.min(units, most) - math.min(reserved[meter.unit] or 0, most)
        meter.left, gate.changed, stirred[group] = math.min(most, meter.left - more), true, true
      end
    end
    for _, rule in ipairs(scope == group and (gate.rules.every or gate.rules) or {}) do -- a pool has one estimate
      local unit = rule.unit
      if fresh[unit] and not named[unit] and not noted[unit] and not implied then
        noted[unit] = true
        note_spent(gate, unit, fresh[unit])
        stirred[group] = group ~= '' or stirred[group]
      end
    end
  end
  if task.order and task.group ~= '' then -- no permit: these take no turns
    correct_share(task.group, reserved, fresh)
  end
  set_note(task, SPENT, task.token .. ' ' .. table.concat(notes, ',') .. ((cost or '') ~= '' and ' ' .. cost or ''))
  return true
end
