-- window_rule: read the rule of a window, or of a quota. Layout: docs/storage.md, "Rules".
-- Gives: window_of(part), the rule of an even or moving window, or nil if the part of the rules is no window;
--        quota_of(part), the rule of a quota, or nil if the part is no quota;
--        plain_limit(text), the rules of a limit of one window, and perhaps a concurrency; nil for others;
--        MOST_UNITS, the most units of a window.
local MOST_UNITS = 1000000000

-- The name of a moving window in the gate differs from that of an even window, so that no program confuses the two.
local function make_window(units, ms, unit, most)
  local rate, moves = tonumber(units), most == 'm'
  return rate and rate > 0 and { rate = rate, per = tonumber(ms), unit = unit, reserve = 0, asked = moves,
    name = ms .. (moves and '_' or '') .. unit, burst = moves and 1 or tonumber(most), moving = moves } or nil
end

local function window_of(part)
  local units, ms, unit, most, more = string.match(part,
    '^(%d[%d.]*) ([1-9]%d*)([a-z0-9_]*) ([1-9m]%d*)([ %d.e+~-]*)$')
  local window = units and make_window(units, ms, unit, most)
  if window and more ~= '' then
    local reserve, rank = string.match(more, '^ ([1-9]%d*) (%-?%d[%d.e+-]*)')
    window.slack, window.estimate = tonumber(string.match(more, ' %+(%d+)')), tonumber(string.match(more, ' ~(%d+)'))
    if reserve then
      window.reserve, window.rank, window.asked = tonumber(reserve), tonumber(rank), true
    end
  end
  return window
end

local function quota_of(part)
  local letter, unit, most, changes, rest = string.match(part,
    '^([HDWM])([a-z0-9_]*) ([1-9]%d*) [^ ]+ (%d+:%-?%d+[%d:,-]*)(.*)$')
  local spread, reserve, rank = string.match(rest or 'none', '^( ?~?) ?(%d*) ?(%-?[%d.e+-]*)$')
  if spread then
    return { letter = letter, unit = unit, name = letter .. unit, amount = tonumber(most), changes = changes,
      spread = spread == ' ~', reserve = tonumber(reserve) or 0, rank = tonumber(rank) or 0 }
  end
end

local function plain_limit(text)
  local slots, units, ms, most = string.match(text, '^(%d+)|([1-9]%d*%.?%d*) ([1-9]%d*) ([1-9m]%d*)$')
  local window = slots and make_window(units, ms, '', most)
  return window and { concurrency = tonumber(slots), ceiling = 0, window } or nil
end
