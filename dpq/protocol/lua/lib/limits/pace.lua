-- pace: compute how fast the windows of a limit grant their units. Layout: docs/storage.md, "Rules".
-- Needs: now, window_rule
-- Gives: MOST_SLACK_MS, CLIMB, pace(window, rule, rate, learned_slack), recall(gate, text); time_of(units, window),
--        the ms that so many units take, rounded up; reach_of(window, rule, slack), the ms that grants pay at most.
local MOST_SLACK_MS = 3600000
local CLIMB = 3 / 128 -- a clean window below the last refused rate adds this share of it; later down to a 24th of that

-- One unit each `interval` ms, rounded up to what doubles of the size of a time add exactly. A short interval would
-- grow too much by that, so only its sums are rounded. `slack` widens the window for requests that are not equally
-- long on their way to the host: what was said, else what was learned.
local function pace(window, rule, rate, learned_slack)
  local interval = (rule.per + (rule.slack or learned_slack or 0)) / rate
  window.interval = interval < 0.25 and interval or math.ceil(interval * 4096) / 4096
  window.most = math.max(1, math.ceil(rate) + rule.burst - 1)
end

local function time_of(units, window)
  local time = units * window.interval
  return window.interval < 0.25 and math.ceil(time * 4096) / 4096 or time -- else it is exact
end

local function reach_of(window, rule, slack)
  return rule.per + slack + time_of(rule.burst, window)
end

-- What the limit has learned stands in its gate as "0:learned:beside". Of a limit that learns its rate: where the last
-- 429 was, the rate of the last clean window since, and a third number if the climb is slower than at first. Else: the
-- slack, ms, and since when; that is the end of a closing, and before that it is no larger.
local function recall(gate, text)
  local learned, beside, climb = string.match(text or '', '^%-? 0:([%d.]+):([%d.]+):?([%d.]*) ')
  learned, beside = math.min(tonumber(learned or 0) or 0, MOST_UNITS), math.min(tonumber(beside or 0) or 0, 1e15)
  if gate.rules.ceiling > 0 and beside <= MOST_UNITS then -- a larger one is a moment: of a slack from before
    gate.learned, gate.beside = learned, beside
    gate.climb = tonumber(climb or '') and math.max(CLIMB / 24, math.min(CLIMB, tonumber(climb)))
  elseif gate.rules.ceiling == 0 and learned + beside > 0 then
    beside = math.min(beside, math.max(instant, gate.opens)) -- else the clock was set back
    for _, rule in ipairs(gate.rules) do
      if not rule.slack then
        -- It halves in 20 minutes, or in the time of 5000 units if that is longer: learning it again takes 429s.
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
