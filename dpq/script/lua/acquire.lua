-- acquire: take units of a limit without a task, now or booked for a moment soon.
--
-- Keys: ready invisible waiting groups meta conf limits gates tracked closed wake tick delayed dead payload keys stats
--       events batches followers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group      "" for the queue's limit alone; with a booking, the scope of the last answer
-- ARGV[3]  cost       the units, as a record has them
-- ARGV[4]  priority   number: for reserves, and to compare the caller with tasks that wait for the same units
-- ARGV[5]  timeout    ms that the caller waits at most; "" for ever
-- ARGV[6]  lease      number: ms of the lease, if the permit is a lease
-- ARGV[7]  id         of the permit, made by the caller
-- ARGV[8]  booked     number: the moment that the last answer booked, ms; "" if there is none
-- ARGV[9]  standing_at  the caller's place in the line, as the last answer said; "" if there is none
-- ARGV[10] held       the lease that the last answer gave with its booking; "" if there is none
-- ARGV[11] channel    on which the caller is called; "" if the caller has no channel
-- ARGV[12] pin        the member of the pool that the permit must have; "" for any; a TAB refuses a pool
--
-- Returns one of:
-- * {1, us, moment, held, scope, cost, brief}: the permit is granted for `moment`, in `us` microseconds, and charged.
--   `held`: "~", the end of its lease and its id, or "" if it is no lease. `scope`: the group, and behind a TAB the
--   member of its pool. `cost`: the charged units, with estimates. `brief`: "1" if it is a lease only until its answer
--   is observed, else "". If an earlier booking stands, the last three are left out.
-- * {0, us, place}: ask again in `us` microseconds. Until then a caller that waits stands in a line at `place`.
-- * {2, us, place}: all leases are taken, or others come first. Ask again when called, or in `us` microseconds.
-- * {-1, us}: the units are free in `us` microseconds, which is beyond the timeout.
-- * {-2, members}: the pool of the group has no such member. `members` has a TAB before each name.
-- Lost reply: the second call charges the units again, and the first lease stays until its end; or the caller stands
-- in the line twice, until its first place is forgotten, seconds later.

-- Needs: now, refusal, go_on, rules, gate, opens, keep, estimate, gates_of, booked, booking, stand
local settings = redis.call('HMGET', conf, 'format', 'aging', 'aging_since', 'order', 'queue_rules', 'queue_gate',
  'token')
local refused = refusal(settings[1])
if refused then
  return refused
end
go_on()
seen.texts = { settings[5], settings[6] }
local name, member = string.match(group, '^([^\t]*)\t?(.*)$')
priority = settings[4] == 'min' and -priority or priority
local score, place = place_of_caller(standing_at, priority, id, settings[2], settings[3])
local scopes, units, added, tells, moved = gates_of(name, member, cost, -score, held, pin)
if not scopes then
  return { -2, units }
end
local lines = { scopes[1], scopes[2], pin ~= '' and scopes[3] or nil } -- the gates in whose line it may stand
local left = leave_lines(standing_at ~= '' and lines or {}, place)
local opening, closer, probing, taken, at, decider, earliest = 0, nil, false, nil, instant, nil, math.huge
local function shuts(moment, i)
  if moment > opening then
    opening, closer = moment, lines[i] or lines[2]
  end
end
for i, gate in ipairs(scopes) do
  shuts(gate.opens > instant and gate.opens or gate.rules.unreadable and instant + 30000 or 0, i)
  probing = probing or gate.probe ~= '-' and gate.probe ~= held
end

local function settle(lost)
  -- Needs: open_or_close, ended, place
  for gate in pairs(left) do
    stirred[string.match(gate.scope, '^[^\t]*')] = true
  end
  if lost then
    ended({ lost, name, member ~= '' and member }, true)
  end
  admit()
end

-- A lease of a task may be over, and there may be no consumer to see it.
local function end_leases()
  if (tonumber(redis.call('HGET', conf, 'next_event') or '') or math.huge) <= instant then
    -- Needs: upkeep
    upkeep(100)
  end
end

-- If a closing moves a booking, the caller asks anew. The booked time is lost, but no other caller could have used it.
if booked and booked >= instant - 1000 and opening == 0 and not probing and not moved then
  return { 1, math.ceil(math.max(0, booked - instant) * 1000), string.format('%.17g', booked), held }
elseif held ~= '' then
  settle(held)
end

for i, gate in ipairs(scopes) do
  taken = full(gate) and (lines[i] or lines[2]) or taken
  local free, counted = opens_at(gate, units, -score)
  free = opening > 0 and opening or free
  -- A booking counts in the period of its moment, so none goes beyond a quota's, or the reset of a host.
  shuts(counted > instant and counted or 0, i)
  earliest = gate[1] and math.min(earliest, math.max(free, instant)) or earliest
  if free > at then
    at, decider = free, gate
  end
  forget_ended(gate)
end
shuts(period_over(scopes, at))

local last = scopes[#scopes]
local soonest = last.booked and last.booked[2] > instant and opening == 0 and not taken and not added
if soonest then
  -- Needs: freed
  local before = timeout == '' and at or math.min(at, instant + tonumber(timeout))
  soonest = freed_before(last, cost, before, lines, place)
  at, units = soonest or at, soonest and {} or units
end
local reply, line, code, again
if timeout ~= '' and at - instant > tonumber(timeout) then
  reply = { -1, math.ceil((at - instant) * 1000) }
elseif opening > 0 then
  line, code, again = closer, 0, opening
elseif taken then
  end_leases()
  line, code, again = taken, 2, math.huge
elseif not soonest then
  local own = decider and (lines[3] or decider ~= scopes[3]) and decider or lines[2] or lines[1]
  line, code, again = own, 0, decider and far_ahead(decider, own, at, units, place, at - earliest > 50)
  if not again then
    code, line, again = 2, come_before(scopes, lines, place, units, at)
  end
end
local granted, changes
if line then
  left[line] = timeout == '0' and left[line] or nil
  reply = stand(line, place, channel, code, again, timeout ~= '0')
elseif not reply then
  granted = { grant(scopes, units, id, at, math.floor(at) + lease, settings[7], tells) }
  changes = added and estimate_change(cost, added)
end
if next(left) then
  settle()
end
keep()
return reply or { 1, math.ceil((at - instant) * 1000), string.format('%.17g', at), granted[1],
  scopes[#scopes].scope, changes and changes ~= true and changes.cost or cost, granted[2] }
