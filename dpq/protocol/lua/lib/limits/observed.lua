-- observed: keep the budgets that a host reports: the units that are left, and until when. Layout: docs/storage.md,
-- "Budgets".
-- Keys: invisible meta tracked
-- Needs: now, record, notes, booked, marks
-- Gives: under_way(gate), the number of leases of a scope; leases are counted from the first budget of the scope on;
--        store_budget(gate, unit, left, ends, more, full, size, length), which stores a budget that a host has
--        reported. `more` is the number of units that leases will still take. `full` is the number that an even refill
--        reaches at `ends`, or nil. `size` is the whole limit, or nil. `length` is its window, ms, if the host says it.
local MOST_COUNTED, SAME_MS = 400, 2000 -- so many leases are searched at most; hosts say whole seconds
local MOST_MS = 86400000 -- as DAY_MS in budgets
local ASKS_MS = 60000 -- a single answer is believed this long, or as long as the longest window of the scope
local PERIODS_MS = { H = 3600000, D = MOST_MS, W = MOST_MS, M = MOST_MS }

-- Counts the leases that permits of a pool hold. Each stands in `tracked` under its member. If the permit may report
-- what it has spent, its lease stands there under the group as well.
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

-- The moment until which a single answer may close a scope, ms. That is as long as the longest window or quota of the
-- scope.
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

-- A budget that refills evenly is kept as a window. The gate stores when it is full, and the ms for each unit. Each
-- answer of the host replaces it.
local function even_budget(gate, left, ends, more, full)
  local interval, latest = (ends - instant) / (full - left), believed(gate)
  ends = math.min(ends + more * interval, now + MOST_MS)
  return { left = full, ends = ends, interval = interval, asks = ends > latest and latest or nil }
end

-- A later reset belongs to another window of the host, so it replaces the budget. For the same reset, or a sooner one,
-- the lower number of units counts, since answers may come in any order. The budget ends when the first answer said.
-- But if nothing is left, it ends when the last answer said: hosts say whole seconds, and no request must run into the
-- window before. If two answers name the same reset, that reset is believed.
local function window_budget(gate, known, left, ends, size, length)
  local latest = believed(gate)
  local budget, same = known, known and not known.interval and math.abs(ends - known.ends) <= SAME_MS
  if not known or known.interval or ends > known.ends + SAME_MS then
    budget = { left = left, ends = ends, reset = ends }
  else
    budget.left = math.min(known.left, left)
    local is_guess = known.size and known.ends > known.reset -- the budget was renewed after the reset of the host
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

local function store_budget(gate, unit, left, ends, more, full, size, length)
  gate.observed = gate.observed or {}
  if full and full > left then
    gate.observed[unit] = even_budget(gate, left, ends, more, full)
  else
    gate.observed[unit] = window_budget(gate, gate.observed[unit], math.max(0, left - more), ends, size, length)
  end
  gate.changed = true
end
