-- observed: keep the budgets that a host has told: so many units left, until when. Layout: docs/storage.md, "Budgets".
-- Keys: invisible meta tracked
-- Needs: now, record, notes, booked, marks
-- Gives: under_way(gate), the number of leases of a scope, which are counted from the first budget on; told(gate, unit,
--        left, ends, more, full, size, length): `more` is what leases will take; `full` what it refills to until then,
--        or nil; `size` the whole limit, or nil, and `length` its window as far as the host says, ms.
local MOST_COUNTED, SAME_MS = 400, 2000 -- leases that are found again; hosts say whole seconds
local MOST_MS = 86400000 -- as in tokens
local ASKS_MS = 60000 -- the reset that one answer names is believed so far, or as far as an own window reaches
local PERIODS_MS = { H = 3600000, D = MOST_MS, W = MOST_MS, M = MOST_MS }

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
      local member = task and live_note(task, RUNS_AS)
      if task and (task.group == scope or task.group .. '\t' .. (member or '') == scope) then
        redis.call('ZADD', tracked, '0', scope .. '\t' .. ids[i])
      end
    end
  end
  return redis.call('ZLEXCOUNT', tracked, '[' .. scope .. '\t', '(' .. scope .. '\n') - overdue(scope)
    + (gate.rules.members and in_pool(gate) or 0)
end

-- Until when one answer alone may close a scope, ms: as long as the longest of the scope's own windows and quotas.
local function believed(gate)
  local rules, longest = gate.rules.every or gate.rules, ASKS_MS
  for _, rule in ipairs(rules) do
    longest = math.max(longest, rule.per)
  end
  for _, rule in ipairs(rules.quotas or {}) do
    longest = math.max(longest, PERIODS_MS[rule.letter])
  end
  return instant + longest
end

-- What refills evenly is kept as a window: when it is full, and the ms for each unit; each answer replaces it.
local function told_refill(gate, left, ends, more, full)
  local interval, latest = (ends - instant) / (full - left), believed(gate)
  ends = math.min(ends + more * interval, now + MOST_MS)
  return { left = full, ends = ends, interval = interval, asks = ends > latest and latest or nil }
end

-- A later reset is another window of the host, and replaces the budget. For the same one, or a sooner one, the lower
-- number counts: answers may come in any order. Its end is the first one that was told; but the last one, if nothing is
-- left, since hosts say whole seconds: so requests do not run into the window before. If two answers name the same
-- reset, it is believed.
local function told_window(gate, known, left, ends, size, length)
  local latest = believed(gate)
  local budget, same = known, known and not known.interval and math.abs(ends - known.ends) <= SAME_MS
  if not known or known.interval or ends > known.ends + SAME_MS then
    budget = { left = left, ends = ends, reset = ends }
  else
    budget.left = math.min(known.left, left)
    local is_guess = known.size and known.ends > known.reset -- it was renewed
    local later = same and is_guess and math.max(known.ends, ends) or known.ends
    budget.ends = same and later or ends
    budget.reset = same and math.max(known.reset or 0, ends) or ends
  end
  budget.asks = not same and budget.ends > latest and latest or nil
  length = math.min(math.max(length, ends - now), same and MOST_MS or latest - instant)
  budget.length = math.ceil(known and known.size == size and math.max(known.length or 0, length) or length)
  budget.size = size
  return budget
end

local function told(gate, unit, left, ends, more, full, size, length)
  gate.observed = gate.observed or {}
  if full and full > left then
    gate.observed[unit] = told_refill(gate, left, ends, more, full)
  else
    gate.observed[unit] = told_window(gate, gate.observed[unit], math.max(0, left - more), ends, size, length)
  end
  gate.changed = true
end
