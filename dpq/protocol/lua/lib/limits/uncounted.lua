-- uncounted: find the costs that a limit does not count as they are, so that the caller hears of it.
-- Gives: uncounted(group, cost, of_queue, of_group), for what weigh (cost) gives. `of_queue` and `of_group` are the
--        rules that hold for the task, or nil. It returns a text for each unit: "group TAB unit TAB units TAB most TAB
--        others". `most` is what a window ever grants, with an "m" before it for a moving window. `most` is "" if no
--        rule counts the unit. `others` are counted units that the cost does not name.
local function uncounted(group, cost, of_queue, of_group)
  local most, mark, names, texts = {}, {}, {}, {}
  local function bound(unit, units, letter)
    if not most[unit] and not cost[unit] then
      names[#names + 1] = unit
    end
    if units < (most[unit] or math.huge) then
      most[unit], mark[unit] = units, letter
    end
  end
  for n = 1, 2 do
    local rules = n == 1 and of_queue or n == 2 and of_group or { ceiling = 0 }
    rules = rules.every or rules
    for i, rule in ipairs(rules) do
      local rate = i == 1 and rules.ceiling > 0 and rules.ceiling or rule.rate
      local units = rule.moving and rate or math.max(1, math.ceil(rate) + rule.burst - 1)
      bound(rule.unit, units, rule.moving and 'm' or '')
    end
    for _, rule in ipairs(rules.quotas or {}) do
      bound(rule.unit, rule.amount, '')
    end
  end
  table.sort(names)
  for unit, units in pairs(cost) do
    local unknown = not most[unit] and unit ~= '' and names[1]
    if units > (unknown and 0 or most[unit] or math.huge) then
      texts[#texts + 1] = table.concat({ group, unit, string.format('%.0f', units),
        unknown and '' or mark[unit] .. string.format('%.0f', most[unit]), table.concat(names, ' ') }, '\t')
    end
  end
  return texts
end
