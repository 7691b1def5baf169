-- slots: keep the slots of a moving window (see moving). A slot has a tick and a number of units. It stands for all
-- grants after the slot before it, up to its own tick. The newest slot stands in three fields: `join` is the
-- tick of its first grant, `last` its own tick, and `held` its units. The other slots stand in `body`, the oldest
-- first, for example ":5.12:3.40:2". Each has its units, then the ticks to the next slot of `body`. `first` is the tick
-- of the oldest slot in `body`, `tail` that of the newest.
-- Gives: clear_slots(window), which removes all slots;
--        add_slot(window, tick, units, span), which adds units to a slot of `span` ticks, or makes a new one;
--        slots_in(window), which returns a pair of tick and units for each slot;
--        set_slots(window, found), which stores such pairs;
--        drop_slots(window, tick), which removes the slots up to that tick. It returns true if these cannot be read;
--        slot_reach(window, units), the tick up to which the slots hold that number of units.
local MOST_BODY_BYTES, SLOT = 4000, '^:(%d+)%.?(%d*)()'

local function clear_slots(window)
  window.sum, window.join, window.last, window.held = 0, 0, 0, 0
  window.first, window.tail, window.body = 0, 0, ''
end

-- Adds the newest slot.
local function push_slot(window, tick, units)
  if window.held > 0 then
    if window.body == '' then
      window.first, window.body = window.last, string.format(':%.0f', window.held)
    else
      window.body = window.body .. string.format('.%.0f:%.0f', window.last - window.tail, window.held)
    end
    window.tail = window.last
  end
  window.join, window.last, window.held, window.sum = tick, tick, units, window.sum + units
end

local function slots_in(window)
  local found, tick = {}, window.first
  for units, gap in string.gmatch(window.body, ':(%d+)%.?(%d*)') do
    found[#found + 1], tick = { tick, tonumber(units) }, tick + (tonumber(gap) or 0)
  end
  if window.held > 0 then
    found[#found + 1] = { window.last, window.held }
  end
  return found
end

local function set_slots(window, found)
  local join, last = window.join, window.last
  clear_slots(window)
  for _, slot in ipairs(found) do
    push_slot(window, slot[1], slot[2])
  end
  window.join = window.last == last and join or window.join
end

-- Adds units before the newest slot, where acquire has booked units. They go into the next slot, if that is near
-- enough. Else they go into the slot before, if that began near enough after its own predecessor. Else they make a
-- new slot.
local function insert(window, tick, units, span)
  local found, n = slots_in(window), 1
  while found[n][1] < tick do
    n = n + 1
  end
  if found[n][1] - tick <= span then
    found[n][2] = found[n][2] + units
    window.join = found[n + 1] and window.join or tick
  elseif found[n - 2] and tick - found[n - 2][1] <= span then
    found[n - 1] = { tick, found[n - 1][2] + units }
  else
    table.insert(found, n, { tick, units })
  end
  set_slots(window, found)
end

local function add_slot(window, tick, units, span)
  if window.held == 0 or tick > window.last and tick - window.join > span then
    push_slot(window, tick, units)
  elseif tick < window.join then
    insert(window, tick, units, span)
  else
    window.last, window.held, window.sum = math.max(window.last, tick), window.held + units, window.sum + units
  end
  if #window.body > MOST_BODY_BYTES then -- many bookings of a short window: join each two slots, at the later tick
    local found, kept = slots_in(window), {}
    for n = #found, 1, -2 do
      table.insert(kept, 1, { found[n][1], found[n][2] + (found[n - 1] and found[n - 1][2] or 0) })
    end
    set_slots(window, kept)
  end
end

-- Reads the slot of the body at a position. Returns its units, the ticks to the next slot, and the position of that
-- slot.
local function slot_at(window, at)
  local units, gap, after = string.match(window.body, SLOT, at)
  return tonumber(units), tonumber(gap) or 0, after
end

local function drop_slots(window, tick)
  local at = 1
  if window.last <= tick then
    return clear_slots(window)
  end
  while at <= #window.body and window.first <= tick do
    local units, gap, after = slot_at(window, at)
    if not units then
      return true
    end
    window.sum, window.first, at = window.sum - units, window.first + gap, after
  end
  window.body = at > 1 and string.sub(window.body, at) or window.body
end

local function slot_reach(window, units)
  local at, tick = 1, window.first
  while at <= #window.body do
    local held, gap, after = slot_at(window, at)
    units = held and units - held or math.huge
    if units <= 0 then
      return tick
    end
    tick, at = tick + gap, after or #window.body + 1
  end
  return window.last
end
