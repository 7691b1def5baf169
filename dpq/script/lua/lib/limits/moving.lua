-- moving: count what a moving window has granted: never more than its rate in any `per`, at whatever speed. Layout and
-- proof: docs/design.md, "Moving windows".
-- Needs: now, booked, slots
-- Gives: these functions, for a gate and the number of a window:
--        hold_moving(gate, i, body, spent), which reads the window; if its text is lost, all its units count as spent;
--        moving_opens(gate, i, units), when the window has that number of units, ms;
--        charge_moving(gate, i, units, token, moment), which charges a grant;
--        add_moving(gate, i, tick, units), which adds units at a tick;
--        describe_moving(gate, i, changed), which says until when the window is paid;
--        and: tick_of(token, rule), the tick of a grant; length_of(gate, rule), ms; newest_token();
--        moving_fields(window), the text of the window without its slots.
local SLOTS, EARLY_MS = 64, 5 -- slots in a window; how far tokens may be ahead of the clock, beside a slot

local function length_of(gate, rule)
  return rule.per + (rule.slack or gate.slack)
end

-- The number of ticks that a slot holds. Rounding up takes another tick, so it is subtracted.
local function span_of(gate, rule)
  return math.max(0, math.floor(length_of(gate, rule) / SLOTS / rule.tick) - 1)
end

local function tick_of(token, rule)
  return math.ceil((token + 1) / 1000 / rule.tick)
end

local function newest_token()
  return math.max(tonumber(redis.call('HGET', conf, 'token') or '') or 0, math.floor(instant * 1000)) + 1
end

local function describe_moving(gate, i, changed)
  local window, rule = gate[i], gate.rules[i]
  window.paid = window.held > 0 and window.last * rule.tick + length_of(gate, rule) - rule.per or 0
  window.owed = window.paid
  gate.changed = gate.changed or changed
end

local function moving_fields(window)
  return string.format(':%d:%d:%d:%d:%d:%d:%d', window.since, window.sum, window.join, window.last, window.held,
    window.first, window.tail)
end

local function add_moving(gate, i, tick, units)
  add_slot(gate[i], tick, units, span_of(gate, gate.rules[i]))
end

local function fill_window(gate, i)
  local window, rule = gate[i], gate.rules[i]
  clear_slots(window)
  window.since = newest_token()
  add_moving(gate, i, math.ceil(instant / rule.tick), rule.rate)
  describe_moving(gate, i, true)
end

-- If the clock was set back, moves slots back: no slot may lie further ahead than a booking may.
local function bring_back(gate, i)
  local window, rule = gate[i], gate.rules[i]
  local ahead = EARLY_MS + (gate.booked and MOST_AHEAD_MS or 0)
  local latest = math.ceil((instant + ahead) / rule.tick) + span_of(gate, rule) + 1
  if window.last > latest then
    local found = slots_in(window)
    clear_slots(window)
    window.since = newest_token()
    for _, slot in ipairs(found) do
      add_moving(gate, i, math.min(slot[1], latest), slot[2])
    end
    describe_moving(gate, i, true)
  end
end

local function hold_moving(gate, i, body, spent)
  local window, rule = gate[i], gate.rules[i]
  local since, sum, join, last, held, first, tail = string.match(window.more or '',
    '^:(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  local _, exponent = math.frexp(rule.per / 262144)
  rule.tick, gate.moves = 2 ^ math.max(exponent, -10), true -- a power of two: doubles count ticks without loss
  clear_slots(window)
  window.since = 0
  if spent or not window.paid or window.paid > 0 and not (since and body) then
    return fill_window(gate, i)
  elseif since then
    window.since, window.sum, window.join = tonumber(since), tonumber(sum), tonumber(join)
    window.last, window.held, window.first = tonumber(last), tonumber(held), tonumber(first)
    window.tail, window.body = tonumber(tail), body or ''
    if drop_slots(window, (instant - length_of(gate, rule)) / rule.tick) then
      return fill_window(gate, i)
    end
    bring_back(gate, i)
  end
  describe_moving(gate, i)
end

local function moving_opens(gate, i, units)
  local window, rule = gate[i], gate.rules[i]
  local over = math.min(window.sum + units - rule.rate, window.sum)
  return over > 0 and slot_reach(window, over) * rule.tick + length_of(gate, rule) or 0
end

local function charge_moving(gate, i, units, token, moment)
  local window, rule = gate[i], gate.rules[i]
  local at, tick = moment or instant, tick_of(token, rule)
  if units > 0 then
    window.since = window.since == 0 and token - 1 or window.since -- the window was never charged before
    if tick * rule.tick > at + EARLY_MS + (span_of(gate, rule) + 1) * rule.tick then -- the clock was set back
      window.since, tick = math.max(window.since, token), 0
    end
    add_moving(gate, i, math.max(tick, math.ceil(at / rule.tick)), units)
    describe_moving(gate, i, true)
  end
end
