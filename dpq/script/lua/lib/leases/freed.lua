-- freed: keep a booking whose caller gave up, for the next caller of the same scope and cost. Its units are charged.
-- It stands in `tracked` as "scope FF moment FF cost".
-- Needs: now, gate, line, booked, callers
-- Gives: free_moment(scopes, moment, cost), which keeps it and calls the first callers;
--        freed_before(gate, cost, at, lines, place): takes the first such moment before `at`, or returns nil. Callers
--        in these lines come first.
local function free_moment(scopes, moment, cost)
  local gate = gate_of(scopes[#scopes])
  redis.call('ZADD', tracked, '0', gate.scope .. '\12' .. string.format('%017.3f\12', moment + 0.001) .. cost)
  gate.booked = gate.booked or { 0, 0, 0, 0, 0 }
  gate.booked[2], gate.changed = math.max(gate.booked[2], moment + 1), true
  for _, scope in ipairs(scopes) do
    if is_awaited(gate_of(scope)) then
      call_line(gate_of(scope), true)
    end
  end
end

local function freed_before(gate, cost, at, lines, place)
  local start, over, found = gate.scope .. '\12', {}, nil
  local from, to = '[' .. start, '(' .. start .. '\127'
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', tracked, from, to, 'LIMIT', '0', '64')) do
    local moment, of = string.match(entry, '^([%d.]+)\12(.*)$', #start + 1)
    moment = tonumber(moment)
    if moment <= instant then
      over[#over + 1] = entry
    elseif moment < at and of == cost then
      found = moment
      for _, line in ipairs(lines) do
        found = not first_of(line, 1, place)[1] and found
      end
      over[#over + 1] = found and entry
      break
    end
  end
  if over[1] then
    redis.call('ZREM', tracked, unpack(over))
  end
  return found or nil
end
