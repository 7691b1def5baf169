-- met_limit: close a group, or the whole queue, after a 429 that a request with or without a permit has met. The first
-- task or permit after the closing is a probe.
--
-- Keys: ready invisible waiting groups closed meta conf wake tick limits gates tracked events
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group      the scope of the permit, as acquire has answered
-- ARGV[3]  scope      to close: group, queue or member; the group if the permit has no member
-- ARGV[4]  ms         number: from now until the host may be asked again, or below 0 as in rate_limited
-- ARGV[5]  granted    number: the moment of the permit, ms
-- ARGV[6]  held       the lease of the permit, which this call ends; "" if the permit has no lease
-- ARGV[7]  report     the units that the permit has spent, as in spent; "" for none
-- ARGV[8]  cost       the units that the permit was charged, as acquire has answered
-- ARGV[9]  status     of the answer, as in rate_limited; or left out
--
-- Returns 1. As in rate_limited; the limit learns only if this permit was granted after the last one that taught it.
-- Lost reply: safe to send again; the time then counts from the second call.

-- Needs: now, go_on, gate, ended, place, met, held, true_up
go_on()
local name, member = string.match(group, '^([^\t]*)\t?(.*)$')
local gate, was_probe = gate_of(scope == 'queue' and '' or scope == 'group' and name or group), false
if held ~= '' then
  local scopes = scopes_of(name, member)
  held = held_now(scopes, held)
  was_probe = gate.probe == held
  if report ~= '' or string.find(cost, ',', 1, true) then
    permit_spent(scopes, held, report, cost, granted, true)
  end
  ended({ held, name, member ~= '' and member }, true) -- a probe that meets a 429 opens nothing
end
meet(gate, ms, granted, granted > gate.taught, was_probe, status)
gate.taught = math.max(gate.taught, granted)
admit()
return 1
