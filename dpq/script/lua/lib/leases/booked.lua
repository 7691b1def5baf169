-- booked: read what acquire has written. A permit that is a lease stands in `tracked` with its end: "~", 13 digits of
-- ms, "~" and its id. A probe in a gate has the same form, if it is a permit. docs/storage.md, "Permits".
-- Needs: now
-- Gives: MOST_AHEAD_MS, how far ahead of now acquire books at most;
--        is_permit(member), true if a name is that of a permit;
--        permit_out(member), true while the permit has not ended;
--        is_awaited(gate), true if callers of acquire may stand in the line of the gate (callers);
--        running(scope), how many permits of a scope have not ended;
--        booked_of(tokens), the numbers of a gate from the tokens of its text (gate_text), or nil;
--        forget_ended(gate), which removes leases of permits that ran out, and a line whose callers are all gone, with
--        freed bookings. It returns true if there may be more;
--        overdue(scope), how many permits ran out and still stand in `tracked`.
local MOST_AHEAD_MS = 5000

local function is_permit(member)
  return string.byte(member) == 126
end

local function permit_out(member)
  return (tonumber(string.match(member, '^~(%d+)~') or 0) or 0) > instant
end

local function is_awaited(gate)
  return gate.booked and gate.booked[2] > instant
end

local function running(scope)
  local from = '[' .. scope .. string.format('\t~%013.0f', now + 1)
  return redis.call('ZLEXCOUNT', tracked, from, '(' .. scope .. '\t\127')
end

local function booked_of(tokens)
  local booked = tokens and tokens.B and {}
  for number in string.gmatch(booked and tokens.B or '', '[^:]+') do
    booked[#booked + 1] = tonumber(number) or 0
  end
  return booked
end

local function range_of_ended(scope)
  return '[' .. scope .. '\t~', '(' .. scope .. string.format('\t~%013.0f', now + 1)
end

local function overdue(scope)
  return redis.call('ZLEXCOUNT', tracked, range_of_ended(scope))
end

local function forget_ended(gate)
  local more = false
  local function forget(from, to)
    local ended_ones = redis.call('ZRANGEBYLEX', tracked, from, to, 'LIMIT', '0', '100')
    if ended_ones[1] then
      redis.call('ZREM', tracked, unpack(ended_ones))
      gate.out = false -- `out` has counted these leases
    end
    more = more or #ended_ones == 100
  end
  if gate.booked and gate.booked[5] > 0 then
    forget(range_of_ended(gate.scope))
  end
  if gate.booked and gate.booked[2] > 0 and gate.booked[2] <= instant then -- remove the whole line
    forget('[' .. gate.scope .. '\11', '(' .. gate.scope .. '\13')
  end
  return more
end
