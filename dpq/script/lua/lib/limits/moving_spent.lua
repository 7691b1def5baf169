-- moving_spent: replace what a delivery was charged in a moving window by what it has spent. Proof: docs/design.md,
-- "Moving windows".
-- Needs: now, rules, moving
-- Gives: recount(gate, i, token, more), where `more` is what the delivery has spent beyond its charge in window i;
--        negative if it has spent less. It returns true if this frees units;
--        distrust(gate), after which deliveries up to now get no units back.
local function recount(gate, i, token, more)
  local window, rule, freed = gate[i], gate.rules[i], false
  local realigned = gate.rules == seen.rules.groups and tonumber(redis.call('HGET', conf, 'realigned') or 0) or 0
  local tick = moving().tick_of(token, rule)
  local known = token > math.max(window.since, realigned * 1000)
  if known and tick * rule.tick + moving().length_of(gate, rule) <= instant then
    return false -- the grant has left the window
  elseif more > 0 then
    window.since = window.since == 0 and moving().newest_token() or window.since
    moving().add(gate, i, known and tick or math.ceil(instant / rule.tick), more)
  elseif known then
    local found, n = moving().slots.list(window), 1
    while found[n] and found[n][1] < tick do
      n = n + 1
    end
    if found[n] then
      found[n][2], freed = math.max(0, found[n][2] + more), true
      if found[n][2] == 0 then
        table.remove(found, n)
      end
      moving().slots.set(window, found)
    end
  end
  moving().describe(gate, i, true)
  return freed
end

local function distrust(gate)
  for i, window in ipairs(gate) do
    if window.since and window.since > 0 then
      window.since = moving().newest_token()
      moving().describe(gate, i, true)
    end
  end
end
