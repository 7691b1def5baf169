-- debt: compute what an even window owes for the units that it has granted. Source: docs/design.md, "The arithmetic".
-- Needs: now, pace, booked
-- Gives: owed_after(opens, rule, window), until when a window is paid for at the end of a 429, ms;
--        bound_of(gate, rule, window), the moment beyond which grants never pay;
--        owe_at_most(gate, i, spent), which lowers the debt of window i to that bound. If the grants are unknown,
--        `spent` is true, and the window counts as spent.

-- Computes the debt of a window at the end of a 429. One request is free, and the others follow at their pace. Other
-- units are all free: the first task runs alone, and its cost is not known here.
local function owed_after(opens, rule, window)
  return rule.unit == '' and opens + time_of(rule.burst - 1, window) or opens
end

local function bound_of(gate, rule, window)
  return instant + reach_of(window, rule, rule.slack or gate.slack) + (gate.booked and MOST_AHEAD_MS or 0)
end

-- If the clock was set back, or the limit was tighter before, the debt goes down to the bound.
local function owe_at_most(gate, i, spent)
  local window, rule = gate[i], gate.rules[i]
  if spent or not window.paid then
    window.paid, window.more, gate.changed = instant + rule.per + time_of(rule.burst - 1, window), nil, true
  end
  local bound = bound_of(gate, rule, window)
  if window.paid > bound then -- the clock was set back, or the limit was tighter; or a task spent so much (refunds)
    bound = bound + (tonumber(string.match(window.more or '', '^:[^:]*:[^:]*:(%d[%d.]*)') or 0) or 0)
    window.more, gate.changed = window.paid <= bound and window.more or nil, gate.changed or window.paid > bound
    window.paid = math.min(window.paid, bound)
  end
  window.owed = math.max(window.paid, gate.why == 'l' and owed_after(gate.opens, rule, window) or 0)
end
