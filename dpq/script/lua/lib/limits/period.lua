-- period: compute the calendar period of a moment. A zone is a list of `moment:offset`, in seconds. From the moment on,
-- its clocks are that far ahead of UTC. The first offset also holds for all times before, the last one for all times
-- after.
-- Gives: period_of(rule, ms), the start and the end of the period, ms, for the letter and the zone of the rule.
local function period_of(rule, ms)
  local DAY = 86400
  -- Computes the first day of the month that a day is in; days count since 1970. Source: days_from_civil of Howard
  -- Hinnant's "chrono-Compatible Low-Level Date Algorithms", where years begin in March.
  local function month_of(day)
    local shifted = day + 719468
    local of_era = shifted % 146097
    local years = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524)
      - math.floor(of_era / 146096)) / 365)
    local of_year = of_era - (365 * years + math.floor(years / 4) - math.floor(years / 100))
    local month = math.floor((5 * of_year + 2) / 153)
    return day - (of_year - math.floor((153 * month + 2) / 5))
  end

  -- Returns the last beginning of a period up to `wall`, and the next beginning, in seconds of local time.
  local function around(letter, wall)
    if letter == 'M' then
      local first = month_of(math.floor(wall / DAY))
      return first * DAY, month_of(first + 31) * DAY
    end
    local long = letter == 'H' and 3600 or letter == 'D' and DAY or 7 * DAY
    local from = letter == 'W' and -3 * DAY or 0 -- 1970 began on a Thursday
    local first = math.floor((wall - from) / long) * long + from
    return first, first + long
  end

  local moments, offsets, at, offset = {}, {}, math.floor(ms / 1000), nil
  for moment, ahead in string.gmatch(rule.changes, '(%d+):(%-?%d+)') do
    moments[#moments + 1] = tonumber(moment)
    offsets[#offsets + 1] = math.max(-DAY, math.min(DAY, tonumber(ahead)))
    if #moments == 1 or moments[#moments] <= at then
      offset = offsets[#offsets]
    end
  end
  local function first_at(wall) -- the first moment when clocks show this time, or a later one
    for i, ahead in ipairs(offsets) do
      local moment = i > 1 and math.max(wall - ahead, moments[i]) or wall - ahead
      if not moments[i + 1] or moment < moments[i + 1] then
        return moment
      end
    end
  end
  local wall, next_wall = around(rule.letter, at + offset)
  local start, reset = first_at(wall), first_at(next_wall)
  while reset <= at do -- clocks went back to before a beginning that they had shown
    wall, next_wall = around(rule.letter, next_wall)
    start, reset = reset, first_at(next_wall)
  end
  return start * 1000, reset * 1000
end
