-- observed: keep the budgets that a host has told: so many units left, until when. Layout: docs/design.md, "Budgets".
-- Keys: invisible meta tracked
-- Needs: now, record, notes, booked
-- Gives: under_way(gate), the number of leases of a scope, which are counted from the first budget on; told(gate, unit,
--        left, full, ends, more): `full` is what it refills to until then, or nil; `more` what leases will take.
local MOST_COUNTED, SAME_MS = 400, 2000 -- leases that are found again; hosts say whole seconds
local MOST_MS = 86400000 -- as in tokens

-- The permits of a pool that are leases: they stand under their member, and those that tell also under the group.
local function in_pool(gate)
  local tasks, permits = 0, 0
  for _, name in ipairs(gate.rules.members) do
    local mate = gate.scope .. '\t' .. name
    permits = permits + running(mate)
    tasks = tasks - redis.call('ZLEXCOUNT', tracked, '[' .. mate .. '\t', '(' .. mate .. '\n')
  end
  return tasks - running(gate.scope) + math.max(permits, running(gate.scope))
end

local function under_way(gate)
  local scope = gate.scope
  if scope == '' then
    return redis.call('ZCARD', invisible) + running(scope)
  end
  if not gate.observed and gate.rules.concurrency == 0 then
    local ids = redis.call('ZRANGE', invisible, '0', MOST_COUNTED - 1, 'REV')
    for i, raw in ipairs(#ids > 0 and redis.call('HMGET', meta, unpack(ids)) or {}) do
      local task = read(raw or '')
      local member = task and live_note(task, '\28')
      if task and (task.group == scope or task.group .. '\t' .. (member or '') == scope) then
        redis.call('ZADD', tracked, '0', scope .. '\t' .. ids[i])
      end
    end
  end
  return redis.call('ZLEXCOUNT', tracked, '[' .. scope .. '\t', '(' .. scope .. '\n')
    + (gate.rules.members and in_pool(gate) or 0)
end

-- What refills evenly is kept as a window: when it is full, and the ms for each unit; each answer replaces it.
-- A later reset is another window of the host, and replaces the budget. For the same one, or a sooner one, the lower
-- number counts: answers may come in any order.
local function told(gate, unit, left, full, ends, more)
  gate.observed = gate.observed or {}
  local known = gate.observed[unit]
  if full and full > left then
    local interval = (ends - instant) / (full - left)
    ends = math.min(ends + more * interval, now + MOST_MS)
    gate.observed[unit], gate.changed = { left = full, ends = ends, interval = interval }, true
    return
  end
  left = math.max(0, left - more)
  if not known or known.interval or ends > known.ends + SAME_MS then
    gate.observed[unit] = { left = left, ends = ends }
  else
    known.left = math.min(known.left, left)
    known.ends = ends < known.ends - SAME_MS and ends or known.ends
  end
  gate.changed = true
end
