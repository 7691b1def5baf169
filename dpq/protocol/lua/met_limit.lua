-- met_limit: close a group, or the whole queue, after a 429 that a permit, or a request without one, has met. The first
-- task or permit afterwards is a probe.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf stats wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group      of the permit; "" for the queue's limit alone
-- ARGV[3]  scope      "group" closes the group, "queue" the queue
-- ARGV[4]  ms         from now until it may be tried again
-- ARGV[5]  granted    the moment of the permit, ms
-- ARGV[6]  held       the lease of the permit, which ends; "" if it has none
--
-- Returns 1. A longer closing is never shortened. What the limit learns is as in rate_limited; the units stay spent.
-- Lost reply: safe to send again; the time then counts from the second call.
local time, group, scope, ms, granted, held = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]

-- Needs: now, go_on, gate, open_or_close, place, met
go_on()
local gate = gate_of(scope == 'queue' and '' or group)
local was_probe = held ~= '' and gate.probe == held
if held ~= '' then
  ended(held, group, true) -- a probe that meets a 429 opens nothing
end
meet(gate, ms, granted, true, was_probe)
admit()
return 1
