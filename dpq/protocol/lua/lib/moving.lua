-- moving: count what a moving window has granted: never more than its rate in any `per`, at whatever speed. Layout and
-- proof: docs/design.md, "Moving windows".
-- Keys: conf
-- Needs: now, rules, booked
-- Gives: moving(), which makes functions when it is first called. Each takes the gate and the number of the window:
--        hold(gate, i, spent), which reads its slots (all units are spent if they are lost); opens(gate, i, units), when
--        it has so many units, ms; charge(gate, i, units, token, moment); recount(gate, i, token, more), for what a
--        delivery has spent beyond what it was charged (negative: less), true if that frees units; distrust(gate),
--        after which no delivery so far gets units back; left(gate, i), the units that it would grant now.
local made_moving

local function moving()
  if made_moving then
    return made_moving
  end
  local SLOTS, MOST_BYTES, EARLY_MS = 64, 4000, 5 -- so many slots in a window; tokens are so far ahead of the clock
  local SLOT = '^:(%d+)%.?(%d*)()' -- units, and the ticks to the next slot

  local function length_of(gate, rule)
    return rule.per + (rule.slack or gate.slack)
  end

  -- The ticks that one slot holds: a tick is lost by rounding up.
  local function span_of(gate, rule)
    return math.max(0, math.floor(length_of(gate, rule) / SLOTS / rule.tick) - 1)
  end

  -- The tick of a grant: the token says it again at its true-up.
  local function tick_of(token, rule)
    return math.ceil((token + 1) / 1000 / rule.tick)
  end

  local function newest_token()
    return math.max(tonumber(redis.call('HGET', conf, 'token') or '') or 0, math.floor(instant * 1000)) + 1
  end

  local function write_slots(gate, i)
    local window, rule = gate[i], gate.rules[i]
    local empty = window.sum <= 0 and window.body == ''
    window.paid = empty and 0 or window.last * rule.tick + length_of(gate, rule) - rule.per
    window.owed, gate.changed = window.paid, true
    window.more = string.format(':%.0f:%.0f:%.0f:%.0f:%.0f:%.0f:%.0f', window.since, window.sum, window.join,
      window.last, window.held, window.first, window.tail) .. window.body
  end

  local function push_slot(window, tick, units)
    if window.body == '' then
      window.first, window.body = window.last, string.format(':%.0f', window.held)
    else
      window.body = window.body .. string.format('.%.0f:%.0f', window.last - window.tail, window.held)
    end
    window.tail, window.join, window.last, window.held = window.last, tick, tick, units
  end

  -- All slots as pairs of tick and units, the oldest first; and back.
  local function slots_of(window)
    local slots, tick = {}, window.first
    for units, gap in string.gmatch(window.body, ':(%d+)%.?(%d*)') do
      slots[#slots + 1] = { tick, tonumber(units) }
      tick = tick + (tonumber(gap) or 0)
    end
    if window.held > 0 then
      slots[#slots + 1] = { window.last, window.held }
    end
    return slots
  end

  local function set_slots(window, slots)
    local join, last = window.join, window.last
    window.sum, window.held, window.last, window.first, window.tail, window.body = 0, 0, 0, 0, 0, ''
    for n, slot in ipairs(slots) do
      if n == 1 then
        window.join, window.last, window.held = slot[1], slot[1], slot[2]
      else
        push_slot(window, slot[1], slot[2])
      end
      window.sum = window.sum + slot[2]
    end
    window.join = window.last == last and join or window.join
  end

  local function add(gate, i, tick, units)
    local window, span = gate[i], span_of(gate, gate.rules[i])
    if window.sum <= 0 and window.body == '' then
      window.join, window.last, window.held = tick, tick, units
    elseif tick >= window.join and (tick <= window.last or tick - window.join <= span) then
      window.last, window.held = math.max(window.last, tick), window.held + units
    elseif tick > window.last then
      push_slot(window, tick, units)
    else -- before the last one, where units were booked
      local slots, n = slots_of(window), 1
      while slots[n][1] < tick do
        n = n + 1
      end
      if slots[n][1] - tick <= span then
        slots[n][2] = slots[n][2] + units
        window.join = slots[n + 1] and window.join or tick
      else
        table.insert(slots, n, { tick, units })
      end
      set_slots(window, slots)
      return
    end
    window.sum = window.sum + units
    if #window.body > MOST_BYTES then -- many bookings of a short window: each two become one, the later one
      local slots, kept = slots_of(window), {}
      for n = #slots, 1, -2 do
        table.insert(kept, 1, { slots[n][1], slots[n][2] + (slots[n - 1] and slots[n - 1][2] or 0) })
      end
      set_slots(window, kept)
    end
  end

  local function empty(gate, i, since)
    local window = gate[i]
    window.since, window.sum, window.join, window.last, window.held = since, 0, 0, 0, 0
    window.first, window.tail, window.body = 0, 0, ''
  end

  local function fill(gate, i) -- what it has granted is not known
    empty(gate, i, newest_token())
    add(gate, i, math.ceil(instant / gate.rules[i].tick), gate.rules[i].rate)
    write_slots(gate, i)
  end

  -- Slots that have left are forgotten. If the clock was set back, slots wait no longer than bookings may.
  local function forget_slots(gate, i)
    local window, rule, at = gate[i], gate.rules[i], 1
    local gone = (instant - length_of(gate, rule)) / rule.tick
    if window.last <= gone then
      return empty(gate, i, window.since)
    end
    while window.body ~= '' and window.first <= gone and at <= #window.body do
      local units, gap, after = string.match(window.body, SLOT, at)
      if not units then
        return fill(gate, i)
      end
      window.sum, window.first, at = window.sum - units, window.first + (tonumber(gap) or 0), after
    end
    window.body = at > 1 and string.sub(window.body, at) or window.body
    local ahead = EARLY_MS + (gate.booked and MOST_AHEAD_MS or 0)
    local latest = math.ceil((instant + ahead) / rule.tick) + span_of(gate, rule) + 1
    if window.last > latest then
      local slots = slots_of(window)
      empty(gate, i, newest_token())
      for _, slot in ipairs(slots) do
        add(gate, i, math.min(slot[1], latest), slot[2])
      end
      write_slots(gate, i)
    end
  end

  local function hold(gate, i, spent)
    local window, rule = gate[i], gate.rules[i]
    if not rule.tick then -- a power of two, so that doubles count ticks without loss
      local _, exponent = math.frexp(rule.per / 262144)
      rule.tick = 2 ^ math.max(exponent, -10)
    end
    local since, sum, join, last, held, first, tail, body = string.match(window.more or '',
      '^:(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)(.*)$')
    if spent or not window.paid or not since and window.paid > 0 then
      fill(gate, i)
    elseif not since then
      empty(gate, i, 0)
    else
      window.since, window.sum, window.join, window.last = tonumber(since), tonumber(sum), tonumber(join), tonumber(last)
      window.held, window.first, window.tail, window.body = tonumber(held), tonumber(first), tonumber(tail), body
      forget_slots(gate, i)
    end
    window.owed = window.paid
  end

  local function opens(gate, i, units)
    local window, rule, at = gate[i], gate.rules[i], 1
    local over, tick = math.min(window.sum + units - rule.rate, window.sum), window.first
    if over <= 0 then
      return 0
    end
    while at <= #window.body do
      local freed, gap, after = string.match(window.body, SLOT, at)
      over = over - (tonumber(freed) or 0)
      if over <= 0 or not freed then
        return (freed and tick or window.last) * rule.tick + length_of(gate, rule)
      end
      tick, at = tick + (tonumber(gap) or 0), after
    end
    return window.last * rule.tick + length_of(gate, rule)
  end

  local function charge_slots(gate, i, units, token, moment)
    local window, rule = gate[i], gate.rules[i]
    if units <= 0 then
      return
    end
    local at, tick = moment or instant, tick_of(token, rule)
    window.since = window.since == 0 and token - 1 or window.since -- nothing was charged before
    if tick * rule.tick > at + EARLY_MS + (span_of(gate, rule) + 1) * rule.tick then -- the clock was set back
      window.since, tick = math.max(window.since, token), 0
    end
    add(gate, i, math.max(tick, math.ceil(at / rule.tick)), units)
    write_slots(gate, i)
  end

  local function recount(gate, i, token, more)
    local window, rule, freed = gate[i], gate.rules[i], false
    local realigned = gate.rules == seen.rules.groups and tonumber(redis.call('HGET', conf, 'realigned') or 0) or 0
    local tick = tick_of(token, rule)
    local known = token > math.max(window.since, realigned * 1000)
    if known and tick * rule.tick + length_of(gate, rule) <= instant then
      return false -- it has left
    elseif more > 0 then
      window.since = window.since == 0 and newest_token() or window.since
      add(gate, i, known and tick or math.ceil(instant / rule.tick), more)
    elseif known then
      local slots = slots_of(window)
      for n, slot in ipairs(slots) do
        if slot[1] >= tick then
          slot[2], freed = math.max(0, slot[2] + more), true
          if slot[2] == 0 then
            table.remove(slots, n)
          end
          set_slots(window, slots)
          break
        end
      end
    end
    write_slots(gate, i)
    return freed
  end

  local function distrust(gate)
    for i, rule in ipairs(gate.rules) do
      if rule.moving and gate[i] and gate[i].since > 0 then
        gate[i].since = newest_token()
        write_slots(gate, i)
      end
    end
  end

  local function units_left(gate, i)
    return gate.rules[i].rate - gate[i].sum
  end

  made_moving = { hold = hold, opens = opens, charge = charge_slots, recount = recount, distrust = distrust,
    fill = fill, left = units_left }
  return made_moving
end
