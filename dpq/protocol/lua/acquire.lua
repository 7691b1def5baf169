-- acquire: take units of a limit without a task, now or booked for a moment soon.
--
-- Keys: ready invisible waiting groups meta conf limits gates tracked closed wake tick delayed dead payload keys stats
--       events trail
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group      "" for the queue's limit alone; with a booking, the scope of the last answer
-- ARGV[3]  cost       as in a record
-- ARGV[4]  priority   by which reserves judge it, and tasks that wait for the same units
-- ARGV[5]  timeout    ms that the caller waits at most; "" for ever
-- ARGV[6]  lease      ms of the lease, where the permit is one
-- ARGV[7]  id         of the permit, made by the caller
-- ARGV[8]  booked     the moment that the last answer booked, ms; "" if none
-- ARGV[9]  ticket     the moment at which the last answer told to ask again, ms; "0" if none
-- ARGV[10] held       the lease that the last answer gave with its booking; "" if none
-- ARGV[11] partitions of the queue, as the client knows it; 0 before it does
--
-- Returns one of:
-- * {1, us, moment, held, scope, cost}: granted, from `us` microseconds on, at `moment`. The units are charged. `held`:
--   "~", the end of its lease and its id, if the permit is a lease; else "". `scope`: the group, and behind a TAB the
--   member of its pool. `cost`: what was charged, with estimates. For a booking that stands, the last two are left out.
-- * {0, us, ticket}: nothing is charged; ask again then.
-- * {2, us, "0"}: leases are out that others must end; ask again soon.
-- * {-1, us}: beyond the timeout; nothing is charged.
-- * {-7, ...}, {-8, ...}, {-9}: as pop.
-- Lost reply: units are charged twice, and a lease stays until its end.
local time, group, cost, priority, timeout, partitions = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[11]
local lease, id, booked, ticket, held = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
if #group > 301 then
  return redis.error_reply('ERR DPQ: the group is too long: at most 200 bytes, a member 100')
end

-- Needs: now, refusal, go_on, rules, gate, opens, keep, judge, pool, estimate, gates_of, booked, mark
local settings = redis.call('HMGET', conf, 'format', 'partitions', 'limited', 'gated', 'queue_rules', 'queue_gate',
  'token')
local refused, format = refusal(settings[1], settings[2], partitions)
if refused then
  return refused
elseif format == '3' then
  return redis.error_reply('ERR DPQ: a queue of format 3 has no permits: run dpq upgrade')
end
local noted = string.match(settings[3] or '', '^q?%d+$') or string.match(settings[4] or '', '^(q?%d+)=$')
if not format and redis.call('EXISTS', meta) == 1
  or noted and string.byte(noted) == 113 and not settings[5]
  or noted and redis.call('HLEN', limits) < tonumber(string.match(noted, '%d+')) then
  return { -9 } -- what may run is unknown
end
go_on()
seen.texts, seen.lacking = { settings[5], settings[6] }, {} -- nothing is lost, see above
local name, member = string.match(group, '^([^\t]*)\t?(.*)$')
local scopes, units, added, tells, moved = gates_of(name, member, cost, priority, held)
local opening, probing, taken = 0, false, false
for _, gate in ipairs(scopes) do
  opening = math.max(opening, gate.opens > instant and gate.opens or 0, gate.rules.unreadable and instant + 30000 or 0)
  probing = probing or gate.probe ~= '-' and gate.probe ~= held
end

-- A closing moves a booking: the caller asks anew. Its time is lost, but nobody could have used it.
if booked and booked >= instant - 1000 and opening == 0 and not probing and not moved then
  return { 1, math.ceil(math.max(0, booked - instant) * 1000), string.format('%.17g', booked), held }
elseif held ~= '' then
  -- Needs: open_or_close, place
  ended(held, name, true, member ~= '' and member or nil)
  admit()
end

local at, decider, earliest = instant, nil, math.huge
for _, gate in ipairs(scopes) do
  taken = full(gate) or taken
  local free, counted = opens_at(gate, units, priority)
  free = opening > 0 and opening or free
  -- A booking counts in the period of its moment, so none goes beyond a quota's.
  opening = counted > instant and math.max(opening, counted) or opening
  earliest = gate[1] and math.min(earliest, math.max(free, instant)) or earliest
  if free > at then
    at, decider = free, gate
  end
  forget_ended(gate)
end
for _, gate in ipairs(scopes) do
  local ends = gate.quotas and gate.quotas.ends() or math.huge
  opening = at >= ends and math.max(opening, ends) or opening
end
local reply, turner, turned, kept = nil, nil, nil, nil
if timeout ~= '' and at - instant > tonumber(timeout) then
  reply = { -1, math.ceil((at - instant) * 1000) }
elseif opening > 0 then
  reply = { 0, math.ceil((opening - instant) * 1000), '0' }
elseif taken then -- a lease of a task may be over, and there may be no consumer to see it
  if (tonumber(redis.call('HGET', conf, 'next_event') or '') or math.huge) <= instant then
    -- Needs: upkeep
    upkeep(100)
  end
  reply = { 2, 0, '0' }
elseif decider or scopes[1].booked or scopes[#scopes].booked then
  -- Needs: booking
  local again, told = wait_for_turn(scopes, priority)
  if not again and decider then
    again, told = too_far(decider, at, units, ticket, at - earliest > 50)
  end
  turner = decider or scopes[#scopes].booked and scopes[#scopes] or scopes[1]
  turned, kept = turner.booked and turner[1] and take_turn, turner[1] and turner[1].paid
  reply = again and { 0, math.ceil((again - instant) * 1000), string.format('%.17g', told) }
end
if reply then
  keep()
  return reply
end

local ends, leased = math.floor(at) + lease, ''
local entry = string.format('~%013.0f~', ends) .. id
local token = math.max(math.floor(at * 1000), (tonumber(settings[7] or '') or 0) + 1) -- after those of all tasks so far
for _, gate in ipairs(scopes) do
  charge(gate, units, entry, token, at)
  local counts = tells or gate.busy or gate.rules.concurrency > 0
  if counts then
    leased = entry
    redis.call('ZADD', tracked, '0', gate.scope .. '\t' .. entry)
    mark() -- the gate knows of the lease, also without a limit
  end
  if counts or at > instant and gate[1] then
    local note = gate.booked or { 0, 0, 0, 0, 0 }
    note[1], note[5] = math.max(note[1], at), math.max(note[5], counts and ends or 0)
    gate.booked, gate.changed = note, true
  end
end
if turned then
  turned(turner, units, priority, kept)
end
if scopes[3] then
  granted_to(scopes[3])
end
keep()
local changes = added and estimates().change(cost, added)
return { 1, math.ceil((at - instant) * 1000), string.format('%.17g', at), leased,
  name ~= '' and scopes[#scopes].scope or '', changes and changes ~= true and changes.cost or cost }
