-- moving_spent: replace what a delivery was charged in a moving window by what it has spent. Proof: docs/design.md,
-- "Moving windows".
-- Needs: now, rules, moving, slots
-- Gives: recount(gate, i, token, more), where `more` is what the delivery has spent beyond its charge in window i;
--        negative if it has spent less. It returns true if this frees units;
--        distrust(gate), after which deliveries up to now get no units back.
local function recount(gate, i, token, more)
  local window, rule, freed = gate[i], gate.rules[i], false
  local realigned = gate.rules == seen.rules.groups and tonumber(redis.call('HGET', conf, 'realigned') or 0) or 0
  local tick = tick_of(token, rule)
  local known = token > math.max(window.since, realigned * 1000)
  if known and tick * rule.tick + length_of(gate, rule) <= instant then
    return false -- the grant has left the window
  elseif more > 0 then
    window.since = window.since == 0 and newest_token() or window.since
    add_moving(gate, i, known and tick or math.ceil(instant / rule.tick), more)
  elseif known then
    local found, n = slots_in(window), 1
    while found[n] and found[n][1] < tick do
      n = n + 1
    end
    if found[n] then
      found[n][2], freed = math.max(0, found[n][2] + more), true
      if found[n][2] == 0 then
        table.remove(found, n)
      end
      set_slots(window, found)
    end
  end
  describe_moving(gate, i, true)
  return freed
end

local function distrust(gate)
  for i, window in ipairs(gate) do
    if window.since and window.since > 0 then
      window.since = newest_token()
      describe_moving(gate, i, true)
    end
  end
end
