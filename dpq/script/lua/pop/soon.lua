-- soon: let pop grant units of even windows for a moment that is near. The caller holds the task until then.
-- Needs: now, early, groups, open_or_close, booked, gate
-- Gives: horizon(gate), the latest moment for which pop grants units of a gate now. It is later than now only if the
--        gate holds nothing but even windows of requests: all else is decided when a task begins;
--        later(gate, at), a moment that is a bit later. A task may begin some ms after its moment, and the next may
--          not. At this pace no window has more units at the host either;
--        open_soon(most, at_last), which opens groups whose limits let them run by then, unless the queue's limit does
--        not. It returns how many. `at_last` is the function of judge, or nil;
--        listed(reply, told, metas): the reply of pop with the list for such a caller. `told` is the reply of rest,
--        {-5}, or {0, -1, now}; metas has the ids and records of the tasks.
local LATE_MS = 8
local horizons = {}

local function horizon(gate)
  local at = horizons[gate]
  if not at then
    local rules = gate.rules
    local even = not (gate.meters or rules.members or is_awaited(gate)) and gate.opens <= instant and gate.probe == '-'
    for i, rule in ipairs(rules) do
      even = even and not rule.moving and rule.unit == '' and rule.per >= early.ms and not gate[i].more
    end
    at = even and instant + early.ms or instant
    horizons[gate] = at
  end
  return at
end

local function later(gate, at)
  local more = 0
  for i, rule in ipairs(gate.rules) do
    more = math.max(more, gate[i].interval * math.min(LATE_MS / rule.per, 0.01))
  end
  return at + math.ceil(more * 4096) / 4096
end

local function open_soon(most, at_last)
  local opened, at = 0, at_last and at_last()
  if at and at > horizon(gate_of('')) then
    return 0
  end
  local by = string.format('%.17g', instant + early.ms)
  for _, group in ipairs(redis.call('ZRANGEBYSCORE', closed, '-inf', by, 'LIMIT', '0', most)) do
    if next_at(group) <= horizon(gate_of(group)) and succeed(group) then
      redis.call('ZREM', closed, group)
      opened = opened + 1
    end
  end
  return opened
end

local function listed(reply, told, metas)
  local list = { told[2] or -1, math.floor(instant * 1000), told[4] or 0 }
  for i = 1, #metas, 2 do
    local at = early.at[metas[i]]
    list[#list + 1] = at and math.ceil((at - instant) * 1000) or 0
  end
  reply[#reply + 1] = list
  return reply
end
