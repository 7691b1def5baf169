-- booking: judge if acquire may book units ahead of time, and if tasks have their turn. For that a gate keeps `booked`,
-- five moments in ms: the last booked moment; until when callers may stand in its line; since when a free unit, or
-- lease, is left to better tasks, or 0; when the last task took a unit while callers waited; and when the last lease of
-- a permit ends. See docs/storage.md, "Permits".
-- Needs: now, rules, pace, booked, line, moving, meters
-- Gives: place_of_caller(text, priority, id, aging, since): the caller's score, aged as the score of a task, and its
--          place; `text` is the place that it had, or "".
--        leave_lines(gates, place): the caller leaves these gates' lines; the set of gates in whose line it stood.
--        standing(gate, place): how many callers stand in the gate's line before that place.
--        far_ahead(gate, line, at, cost, place, blocks): when the caller is to ask again, ms, or nil if it may book
--          `at`; `gate` decides that moment, and the caller is to stand in the line of the gate `line`.
--        turn_of(gate, cost, at, place, last): until when tasks may take the units that are free `at`, ms, or nil;
--          `last` is true if a task and the caller can get only one lease.
--        period_over(gates, at): the latest end of a quota's period, or the latest reset of a host, that is not after
--          `at`, ms, or 0; and the number of its gate.
local TURN_MS, FREE_MS = 50, 1000

local function place_of_caller(text, priority, id, aging, since)
  local came = tonumber(string.sub(text, 19, 34)) or math.floor(instant * 1000)
  local score = (tonumber(aging or '') or 0) * (came / 1000 - (tonumber(since or '') or 0)) / 1000 - priority
  return score, text ~= '' and text or place_in_line(score, came) .. id
end

local function leave_lines(gates, place)
  seen.asks = place
  local left = {}
  for _, gate in ipairs(gates) do
    left[gate] = leave_line(gate, place) or nil
  end
  return left
end

local function standing(gate, place)
  return redis.call('ZLEXCOUNT', tracked, '[' .. gate.scope .. '\11', '(' .. gate.scope .. '\11' .. place)
end

-- Callers whose moment is farther away ask again one after the other, at the pace of the limit. If a booking would
-- leave another limit idle until its moment (`blocks`), callers book only 50 ms ahead.
local function far_ahead(gate, line, at, cost, place, blocks)
  local ahead, pause = blocks and 50 or MOST_AHEAD_MS, 0
  if at - instant <= ahead then
    return nil
  end
  for i, rule in ipairs(gate.rules) do
    local units = math.min(cost[rule.unit] or 0, gate[i].most)
    pause = units > 0 and math.max(pause, time_of(units, gate[i])) or pause
  end
  return math.min(math.max(at - ahead + standing(line, place) * pause, instant + 10), instant + 10000)
end

-- Are enough units free for this caller and for a task of the same cost?
local function plenty(gate, cost)
  for i, rule in ipairs(gate.rules) do
    local units = cost[rule.unit] or 0
    local at = rule.moving and moving_opens(gate, i, 2 * units)
    if units > 0 and (at or gate[i].owed + (2 * units - rule.burst) * gate[i].interval) > instant then
      return false
    end
  end
  return true
end

local function period_over(gates, at)
  local latest, n = 0, nil
  for i, gate in ipairs(gates) do
    local ends = math.huge
    for _, meter in pairs(gate.meters or {}) do
      ends = math.min(ends, meter.interval and math.huge or ends_of(meter), meter.asks or math.huge)
    end
    if at >= ends and ends > latest then
      latest, n = ends, i
    end
  end
  return latest, n
end

-- If no task came in the turn of tasks, callers may take units for a second.
local function turn_of(gate, cost, at, place, last)
  local best = (last or not plenty(gate, cost)) and best_of(gate)
  local later = not best or best > string.sub(place, 1, 34)
  if later then
    return nil
  end
  gate.booked = gate.booked or { 0, 0, 0, 0, 0 }
  local booked = gate.booked
  if booked[3] == 0 or instant >= booked[3] + TURN_MS + FREE_MS then
    booked[3], gate.changed = at, true
  end
  return instant < booked[3] + TURN_MS and booked[3] + TURN_MS or nil
end
