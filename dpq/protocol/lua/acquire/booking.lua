-- booking: judge if acquire may book units ahead of time. A gate keeps for that, as `booked`: until when units are
-- booked; the last moment at which a caller was told to ask again; and, where tasks wait for the same units, the
-- moment that is left to them, and what was paid then. docs/design.md, "Permits".
-- Keys: ready
-- Needs: now, pace, booked, opens, groups
-- Gives: wait_for_turn(scopes, rank) and too_far(gate, at, cost, ticket, blocks): nil if it may book at that moment;
--        else when to ask again, ms, and the ticket. take_turn(gate, cost, rank, kept), after it has booked; kept is
--        what the first window had paid before.
local TURN_MS, FREE_MS = 50, 1000

-- Does a task of this rank, or a better one, wait for units of a gate?
local function contended(gate, rank)
  local score
  if gate.scope == '' then
    score = redis.call('ZRANGE', ready, '0', '0', 'WITHSCORES')[2]
  else
    score = head_of(gate.scope) or heir_of(gate.scope)
  end
  return score and -tonumber(score) >= rank
end

local function wait_for_turn(scopes, rank)
  for _, gate in ipairs(scopes) do
    local booked = gate.booked
    if booked and gate[1] and booked[4] > 0 and booked[4] == gate[1].paid and instant < booked[3] + TURN_MS
      and contended(gate, rank) then
      return booked[3] + TURN_MS, 0
    end
  end
end

-- Callers farther away come back one by one, at the pace of the limit: each gets a ticket. While there are tickets, new
-- callers book half as far ahead, so that those with tickets find room. If a booking leaves another limit idle until
-- then, callers book only 50 ms ahead.
local function too_far(gate, at, cost, ticket, blocks)
  gate.booked = gate.booked or { 0, 0, 0, 0, 0 }
  local ahead, last, pause = blocks and 50 or MOST_AHEAD_MS, gate.booked[2], 0
  local in_turn = ticket > 0 and ticket <= instant or last <= instant
  if at - instant <= (in_turn and ahead or ahead / 2) then
    return nil
  end
  for i, rule in ipairs(gate.rules) do
    local units = math.min(cost[rule.unit] or 0, gate[i].most)
    pause = units > 0 and math.max(pause, time_of(units, gate[i])) or pause
  end
  local again = ticket
  if ticket <= instant then
    again = math.max(last + pause, at - ahead, instant + 10)
    gate.booked[2], gate.changed = again, true
  end
  return math.min(again, math.max(at - ahead, instant + 10000)), again
end

local function take_turn(gate, cost, rank, kept)
  local booked = gate.booked
  if not contended(gate, rank) then
    booked[3], booked[4] = 0, 0
  elseif booked[4] > 0 and kept == booked[4] then -- no task came in its turn
    booked[3], booked[4] = instant + FREE_MS, 0
  elseif booked[4] > 0 or instant >= booked[3] then
    booked[3], booked[4] = opens_at(gate, cost, rank), gate[1].paid
  end
end
