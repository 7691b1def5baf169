-- give_back: pay back what a task has not spent of a window, as far as the bound of the window allows. Or owe what a
-- task has spent beyond its charge. Proof: docs/design.md, "True-up".
-- Needs: now, pace, refunds
-- Gives: give_back(gate, i, token, units), for units of window i that were reserved and not spent; true if it pays some
--        back;
--        owe(gate, i, token, reserved, units), for units that were spent and not reserved.
local function pay(gate, i, ms, known)
  local window = gate[i]
  window.paid = ms
  write_pairs(window, known, gate.rules[i])
  window.owed, gate.changed = math.max(ms, floor_of(gate, i)), true
end

local function give_back(gate, i, token, units)
  local window, known = gate[i], read_pairs(gate[i], gate.rules[i])
  if not known or window.most > known.most then -- what was charged is not known
    pay(gate, i, window.paid, pairs_now(window, gate.rules[i]))
    return false
  end
  local interval = math.min(known.interval, window.interval)
  local back = math.min(math.floor(units * interval * 4096) / 4096, window.paid)
  for _, pair in ipairs(known) do
    back = pair.token > token and math.min(back, pair.slack) or back
  end
  if back > 0 then -- the refund lies before the later grants as well
    local left = { interval = known.interval, most = known.most, over = known.over }
    for _, pair in ipairs(known) do
      add_pair(left, pair.token, pair.token > token and pair.slack - back or pair.slack)
    end
    pay(gate, i, window.paid - back, left)
  end
  return back > 0
end

local function owe(gate, i, token, reserved, units)
  local window, known = gate[i], pairs_now(gate[i], gate.rules[i])
  local least = math.min(token / 1000, instant) + time_of(reserved, window) -- the gate may have been forgotten
  local ms = math.max(window.paid, least) + time_of(units, window)
  known.over = math.max(0, ms - bound_of(gate, gate.rules[i], window))
  pay(gate, i, ms, known)
end
