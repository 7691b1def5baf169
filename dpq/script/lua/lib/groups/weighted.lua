-- weighted: say what a task takes of its group's share, if groups take turns by units.
-- Needs: rules
-- Gives: unit_of(fairness), the unit that counts for that setting, "" for requests; nil if none does;
--        weight_of(group).
local function unit_of(fairness)
  return string.match(fairness or '', '^units:?([a-z0-9_]*)$')
end

local function weight_of(group)
  local rules = rules_of('group:' .. group) or rules_of('groups')
  return rules and rules.weight or 1
end
