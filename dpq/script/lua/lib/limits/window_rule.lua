-- window_rule: read the rule of a window, or of a quota. The bounds are those of `RateLimit` and `Quota`. Layout:
-- docs/storage.md, "Rules".
-- Gives: window_of(units, ms, unit, most, slowest), the rule of an even window, or nil;
--        moving_of(units, ms, unit), the rule of a moving window (moving), or nil;
--        quota_of(part), the rule of a quota, or nil if the part of the rules is no quota;
--        plain_limit(text), the rules of a limit of one window, and perhaps a concurrency; nil for others;
--        MOST_UNITS, the most units of a window.
local MOST_UNITS = 1000000000

local function window_of(units, ms, unit, most, slowest)
  local rate, per, burst = tonumber(units), tonumber(ms), tonumber(most)
  if rate and rate >= 0.001 and rate <= MOST_UNITS and per <= 3.1536e11 and burst and burst <= MOST_UNITS
    and burst * per / math.min(rate, slowest) <= 3.1536e13 then
    return { rate = rate, per = per, unit = unit, name = ms .. unit, burst = burst, reserve = 0 }
  end
end

-- Makes the rule of a moving window. Its name in the gate differs from that of an even window, so that no program
-- confuses the two.
local function moving_of(units, ms, unit)
  local window = window_of(units, ms, unit, '1', MOST_UNITS)
  if window and window.rate >= 1 and window.rate % 1 == 0 then
    window.moving, window.asked, window.name = true, true, ms .. '_' .. unit
    return window
  end
end

local function quota_of(part)
  local letter, unit, most, changes, rest = string.match(part,
    '^([HDWM])([a-z0-9_]*) ([1-9]%d*) [^ ]+ (%d+:%-?%d+[%d:,-]*)(.*)$')
  local amount, spread = tonumber(most or ''), string.sub(rest or '', 1, 2) == ' ~'
  local kept = string.sub(rest or '', spread and 3 or 1)
  local reserve, rank = string.match(kept or '', '^ ([1-9]%d*) (%-?%d[%d.e+-]*)$')
  reserve, rank = tonumber(reserve or 0), tonumber(rank or 0)
  if amount and amount <= 1000000000000 and (kept == '' or reserve > 0) and reserve < amount and rank
    and math.abs(rank) <= 2 ^ 63 then
    return { letter = letter, unit = unit, name = letter .. unit, amount = amount, changes = changes,
      spread = spread, reserve = reserve, rank = rank }
  end
end

local function plain_limit(text)
  local slots, units, ms, most = string.match(text, '^(%d+)|([1-9]%d*%.?%d*) ([1-9]%d*) ([1-9m]%d*)$')
  local window = most == 'm' and moving_of(units, ms, '') or units and window_of(units, ms, '', most, MOST_UNITS)
  local concurrency = tonumber(slots)
  return window and concurrency <= 1000000 and { concurrency = concurrency, ceiling = 0, window } or nil
end
