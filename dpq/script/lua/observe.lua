-- observe: store a budget, which is what a host says is left of its limit and until when. It stands in the gate of a
-- group or of the queue. Tasks get no more than the budget; own limits hold beside it.
--
-- Keys: ready invisible waiting groups closed meta conf wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  scope      a group; a group, TAB and a member of its pool; or "" for the queue
-- ARGV[3]  id         of the task that got the host's answer; or the lease of a permit, as acquire has answered; or ""
-- ARGV[4]  token      of the delivery; for a permit "1" if its lease ends with the answer, else ""
-- ARGV[5..]           a budget: unit, units left, ms from now until there are more, the units that a task takes of it,
--                     the units to which it refills evenly until then, or ""; the whole limit, or ""; its window, ms,
--                     or 0; ...
--
-- Returns 1. The host may not know yet of the requests under way: each other lease of the scope counts as a task that
-- takes as much. An answer with the same reset (within 2 s) never raises the units left.
-- Lost reply: safe to send again; the time then counts from the second call.

-- Needs: now, refusal
local refused = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
end
-- Needs: gate, open_or_close, ended, place, go_on, held, booked, record, notes
local MOST_COUNTED, SAME_MS = 400, 2000 -- at most that many leases are searched; hosts say whole seconds
local DAY_MS = 86400000 -- no budget lasts longer (meters)

-- Counts the leases that permits of a pool hold. Each stands in `tracked` under its member. If the permit may report
-- what it has spent, its lease stands there under the group as well.
local function in_pool(gate)
  local tasks, permits = 0, 0
  for _, each in ipairs(gate.rules.members) do
    local mate = scope .. '\t' .. each
    permits = permits + running(mate)
    tasks = tasks - redis.call('ZLEXCOUNT', tracked, '[' .. mate .. '\t', '(' .. mate .. '\n')
  end
  return tasks - running(scope) + math.max(permits, running(scope))
end

-- Counts the leases of the scope. They are counted from its first budget on.
local function under_way(gate)
  if scope == '' then
    return redis.call('ZCARD', invisible) + running(scope)
  end
  if not gate.told and gate.rules.concurrency == 0 then
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

-- The moment until which a single answer may close a scope, ms. That is for a minute, or as long as the longest window
-- or quota of the scope.
local function believed(gate)
  local rules, longest = gate.rules.every or gate.rules, 60000
  for _, rule in ipairs(rules) do
    longest = math.max(longest, rule.per)
  end
  for _, rule in ipairs(rules.quotas or {}) do
    longest = math.max(longest, rule.letter == 'H' and 3600000 or DAY_MS)
  end
  return math.floor(instant) + longest
end

-- A budget that refills evenly is kept as a window. The gate stores when it is full, and the ms for each unit. Each
-- answer of the host replaces it.
local function even_budget(gate, unit, left, ends, more, whole)
  local interval, latest = (ends - instant) / (whole - left), believed(gate)
  ends = math.min(ends + more * interval, now + DAY_MS)
  return { unit = unit, left = whole, ends = ends, reset = ends, length = 0, interval = interval,
    asks = ends > latest and latest or nil }
end

-- A later reset belongs to another window of the host, so it replaces the budget. For the same reset, or a sooner one,
-- the lower number of units counts, since answers may come in any order. The budget ends when the first answer said;
-- but if that end is a guess, since the host has not told its reset since it was renewed, when the last answer said. If
-- two answers name the same reset, that reset is believed.
local function window_budget(gate, known, unit, left, ends, most, length)
  local latest, stays = believed(gate), known and not known.interval and ends <= known.ends + SAME_MS
  local budget, same = { unit = unit, ends = ends, reset = ends, most = most }, stays and ends >= known.ends - SAME_MS
  budget.left = stays and math.min(known.left, left) or left
  if same then
    local is_guess = known.most and known.ends > known.reset
    budget.ends, budget.reset = is_guess and math.max(known.ends, ends) or known.ends, math.max(known.reset, ends)
  elseif ends > latest then
    budget.asks = latest
  end
  length = math.min(math.max(length, ends - now), same and DAY_MS or latest - instant)
  budget.length = math.ceil(known and known.most == most and math.max(known.length, length) or length)
  return budget
end

go_on()
local gate = gate_of(scope)
if gate.rest then -- no task runs in this scope: its gate stays as it is
  return 1
end
local out, name, member = under_way(gate), string.match(scope, '^([^\t]*)\t?(.*)$')
if is_permit(id) then
  id = held_now({ scope }, id)
  out = math.max(0, out - (redis.call('ZSCORE', tracked, scope .. '\t' .. id) and permit_out(id) and 1 or 0))
  if token == '1' then
    ended({ id, name, member ~= '' and member })
  end
elseif id ~= '' and string.match(redis.call('HGET', meta, id) or '', '^(%d+) ') == token
  and redis.call('ZSCORE', invisible, id) then
  out = math.max(0, out - 1)
end
local meters = gate.meters or {}
for i = 5, #args, 7 do
  local unit, left, ends, more = args[i], tonumber(args[i + 1]), now + args[i + 2], out * args[i + 3]
  local whole, key = tonumber(args[i + 4]), 'O' .. unit
  meters[key] = whole and whole > left and even_budget(gate, unit, left, ends, more, whole)
    or window_budget(gate, meters[key], unit, math.max(0, left - more), ends, tonumber(args[i + 5]),
      tonumber(args[i + 6]))
end
gate.meters, gate.told, gate.changed = meters, true, true
if scope == '' then
  stirred[''] = true -- waiters sleep until a moment of the old budget
else
  redis.call('HSET', conf, 'gated', '1')
  open_or_close(name)
end
admit()
return 1
