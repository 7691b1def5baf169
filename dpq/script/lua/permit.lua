-- permit: end the lease of a permit, and store the units that the permit has spent; or make the lease longer.
--
-- Keys: ready invisible waiting groups closed meta conf wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group      the scope that acquire has answered; for a caller in a line its group, TAB and the member that
--                     the caller wants
-- ARGV[3]  held       the lease that acquire or the last call has answered; or the place of a caller that leaves its
--                     line
-- ARGV[4]  ms         number: from now until the lease is to end; 0 ends it at once
-- ARGV[5]  report     the units that the permit has spent, as in spent; "" for none
-- ARGV[6]  cost       the units that the permit was charged, as acquire has answered
-- ARGV[7]  moment     when the units were charged, ms, as acquire has answered
-- ARGV[8]  unused     "1" if the caller gave up before that moment: the next caller may have it
--
-- Returns the lease as it is from now on; "" if it has ended.
-- Lost reply: safe to send again; the second call finds the lease by its id. Spent units are stored only while the
-- lease has not ended.

-- Needs: now, go_on, gate, open_or_close, ended, place, line, held, true_up
go_on()
local name, mate = string.match(group, '^([^\t]*)\t?(.*)$')
local scopes = scopes_of(name, mate)
if unused == '1' and (tonumber(moment) or 0) > instant then
  -- Needs: freed
  free_moment(scopes, tonumber(moment), cost)
end
if string.byte(held) ~= 126 then
  for i, scope in ipairs(scopes) do
    local left = leave_line(gate_of(scope), held)
    stirred[scopes[math.min(i, 2)]] = left or stirred[scopes[math.min(i, 2)]]
  end
  admit()
  return ''
end
local member, now_held = held_now(scopes, held), ''
if ms == 0 then
  if report ~= '' then
    permit_spent(scopes, member, report, cost, moment)
  end
  ended({ member, name, mate ~= '' and mate })
  admit()
  return ''
end
for _, scope in ipairs(scopes) do
  if redis.call('ZREM', tracked, scope .. '\t' .. member) == 1 then
    local gate = gate_of(scope)
    now_held = string.format('~%013.0f', now + ms) .. string.sub(member, 15)
    redis.call('ZADD', tracked, '0', scope .. '\t' .. now_held)
    gate.probe = gate.probe == member and now_held or gate.probe
    gate.booked = gate.booked or { 0, 0, 0, 0, 0 }
    gate.booked[5], gate.changed = math.max(gate.booked[5], now + ms), true
  end
end
if now_held ~= '' and name ~= '' then -- the lease stands in the gate, also without a limit
  redis.call('HSET', conf, 'gated', '1')
end
admit()
return now_held
