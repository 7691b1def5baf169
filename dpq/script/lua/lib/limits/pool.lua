-- pool: find the member of a pool that a task may run as. Layout: docs/storage.md, "Pools".
-- Needs: now, gate, opens, notice
-- Gives: pool_at(gate, cost, rank, pin), for the gate of a group with members. `pin` is the member that the task is
--        pinned to, or nil. It returns when the group and a member let the task run, ms. If members let it run now, the
--        second value is the gate of the member that was granted least recently;
--        granted_to(mate), to be called after a grant to a member.
local latest = instant

-- Notes when a member was granted last. Two grants of a pool differ by the smallest step of a double that is a time,
-- also in one millisecond, and where the clock was set back.
local function granted_to(mate)
  latest = latest + 1 / 4096
  mate.last, mate.changed = latest, true
end

local function pool_at(gate, cost, rank, pin)
  if not gate.mates then
    local scopes = {}
    for i, name in ipairs(gate.rules.members) do
      scopes[i] = gate.scope .. '\t' .. name
    end
    gate.mates = redis.call('HMGET', gates, unpack(scopes))
    for i, scope in ipairs(scopes) do
      gate.mates[i] = gate_of(scope, gate.mates[i])
    end
  end
  local soonest, best = UNTIL_OPENED, nil
  for i, name in ipairs(gate.rules.members) do
    local mate = gate.mates[i]
    latest = math.max(latest, mate.last)
    local at = (not pin or pin == name) and opens_at(mate, cost, rank)
    if at and at < math.max(soonest, instant + 1) and full(mate) then
      at = math.max(at, now + 30000)
    end
    soonest = at and math.min(soonest, at) or soonest
    if at and at <= instant and not (best and best.last <= mate.last) then
      best = mate
    end
  end
  return math.max(soonest, opens_at(gate, cost, rank)), best
end
