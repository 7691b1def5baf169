-- reset: let limits begin anew. The gate keeps the id of a reset for two minutes, as "Z:id:moment". So a call that is
-- sent again does nothing.
-- Needs: now, gate, moving, moving_spent, pool, scan, slots
-- Gives: begin_anew(scope, differs, id), for a scope whose rules were set. If `differs`, the rules may differ from
--        those before. `id` is the id of the reset, or nil for no reset;
--        reset_page(cursor, id), which resets groups that have no limit of their own, one page of gates for each call.
--        It returns the next cursor, "0" at the end.
-- A reset forgets what the gate has granted, counted and learned, and what its host has said. Totals, closings,
-- bookings and turns stay.
local function reset_gate(gate, id)
  if string.match(gate.reset, '^%d+') == id or gate.rest then
    return
  end
  for i, rule in ipairs(gate.rules) do
    local window = gate[i]
    window.paid, window.owed, window.more = 0, 0, nil
    if rule.moving then
      clear_slots(window)
      window.since = newest_token() -- deliveries up to now get no units back
      describe_moving(gate, i, true)
    end
  end
  gate.rate, gate.since, gate.used, gate.learned, gate.beside, gate.slack = 0, 0, 0, 0, 0, 0
  gate.spent, gate.reserves, gate.meters = '', nil, nil
  gate.reset, gate.changed = string.format('%s:%.0f', id, instant), true
end

local function begin_anew(scope, differs, id)
  local gate = gate_of(scope)
  local each = { gate }
  if gate.rules.members then
    pool_at(gate, {}, math.huge)
    each = { gate, unpack(gate.mates) }
  end
  for _, one in ipairs(each) do
    if differs then -- what was granted meanwhile was not charged
      distrust(one)
    end
    if id then
      reset_gate(one, id)
    end
  end
end

local function reset_page(cursor, id)
  local page = scan('HSCAN', gates, cursor, '100')
  for i = 1, #page[2], 2 do
    local scope = page[2][i]
    if not string.find(scope, '\t', 1, true) and not gate_of(scope).rules.own then
      reset_gate(gate_of(scope), id)
    end
  end
  return page[1]
end
