-- pace: compute how fast the windows of a limit grant their units, and what an even window owes for them. Layout:
-- docs/storage.md, "Rules". Source: docs/design.md, "The arithmetic".
-- Needs: now, window_rule, booked
-- Gives: MOST_SLACK_MS, the longest slack;
--        CLIMB, the share that a learned rate climbs at first;
--        pace(window, rule, rate, learned_slack), which sets the interval and the most units of a window;
--        recall(gate, text), which reads what the limit has learned;
--        time_of(units, window), the ms that that many units take, rounded up;
--        window_at(window, rule, units), when an even window lets that many units start, ms;
--        pay_window(window, units, at), which charges an even window for units that start at a moment;
--        reach_of(window, rule, slack), how far ahead of now grants are paid at most, ms;
--        owed_after(opens, rule, window), until when a window is paid for at the end of a 429, ms;
--        bound_of(gate, rule, window), the moment beyond which grants never pay;
--        owe_at_most(gate, i, spent), which lowers the debt of window i to that bound. If the grants are unknown,
--        `spent` is true, and the window counts as spent.
local MOST_SLACK_MS = 3600000
local CLIMB = 3 / 128 -- share of the last refused rate that a clean window below it adds; later down to a 24th of that

-- Grants one unit each `interval` ms, rounded up to a value that doubles of the size of a time add exactly. Rounding
-- would lengthen a short interval too much, so only its sums are rounded. `slack` widens the window, since requests are
-- not equally long on their way to the host. It is the slack of the rule, or else the learned slack.
local function pace(window, rule, rate, learned_slack)
  local interval = (rule.per + (rule.slack or learned_slack or 0)) / rate
  window.interval = interval < 0.25 and interval or math.ceil(interval * 4096) / 4096
  window.most = math.max(1, math.ceil(rate) + rule.burst - 1)
end

local function time_of(units, window)
  local time = units * window.interval
  return window.interval < 0.25 and math.ceil(time * 4096) / 4096 or time -- a longer interval is exact
end

local function window_at(window, rule, units)
  return window.owed + time_of(math.min(units, window.most) - rule.burst, window)
end

local function pay_window(window, units, at)
  local paid = window.owed
  if units > 0 then
    paid = (paid > at and paid or at) + time_of(units, window)
  end
  window.paid, window.owed = paid, paid
end

local function reach_of(window, rule, slack)
  return rule.per + slack + time_of(rule.burst, window)
end

-- Reads what the limit has learned: "0:learned:beside" in its gate. If the limit learns its rate, `learned` is where
-- the last 429 was. `beside` is the rate of the last clean window since. A third number follows if the climb is slower
-- than at first. For other limits, `learned` is the slack, ms, and `beside` is since when it holds. That moment is the
-- end of a closing; before it, the slack does not shrink.
local function recall(gate, text)
  local learned, beside, climb = string.match(text or '', '^%-? 0:([%d.]+):([%d.]+):?([%d.]*) ')
  learned, beside = math.min(tonumber(learned or 0) or 0, MOST_UNITS), math.min(tonumber(beside or 0) or 0, 1e15)
  if gate.rules.ceiling > 0 and beside <= MOST_UNITS then -- a larger number is a moment, from a limit with slack
    gate.learned, gate.beside = learned, beside
    gate.climb = tonumber(climb or '') and math.max(CLIMB / 24, math.min(CLIMB, tonumber(climb)))
  elseif gate.rules.ceiling == 0 and learned + beside > 0 then
    beside = math.min(beside, math.max(instant, gate.opens)) -- a later moment means that the clock was set back
    for _, rule in ipairs(gate.rules) do
      if not rule.slack then
        -- The slack halves in 20 minutes, or in the time of 5000 units if that is longer: learning it again takes 429s.
        local half = math.max(1200000, 5000 * rule.per / rule.rate)
        local slack = math.min(learned, rule.per, MOST_SLACK_MS) * 2 ^ (math.min(0, beside - instant) / half)
        if slack >= 0.5 then
          gate.learned, gate.beside, gate.slack, gate.half = learned, beside, math.floor(slack + 0.5), half
        end
        break
      end
    end
  end
end

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
