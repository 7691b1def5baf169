-- met_limit: close a group, or the whole queue, after a 429 that a permit, or a request without one, has met. The first
-- task or permit afterwards is a probe.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf stats wake tick limits gates tracked
--       events trail
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group      the scope of the permit, as acquire has answered
-- ARGV[3]  scope      "member" closes the member of a pool, else the group; "group" the group, "queue" the queue
-- ARGV[4]  ms         from now until it may be tried again
-- ARGV[5]  granted    the moment of the permit, ms
-- ARGV[6]  held       the lease of the permit, which ends; "" if it has none
-- ARGV[7]  told       what it has spent, as in spent; "" for nothing
-- ARGV[8]  cost       what it was charged, as acquire has answered
-- ARGV[9]  status     of the answer, as in rate_limited; or left out
--
-- Returns 1. A longer closing is never shortened. What the limit learns is as in rate_limited, but only from a permit
-- that was granted later than the last one that taught: an earlier one says nothing new. The request stays spent; units
-- of which it tells nothing count as not spent.
-- Lost reply: safe to send again; the time then counts from the second call.
local time, group, scope, ms, granted, held = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local told, cost, status = ARGV[7], ARGV[8], ARGV[9]

-- Needs: now, go_on, gate, ended, place, met, held
go_on()
local name, member = string.match(group, '^([^\t]*)\t?(.*)$')
local gate, was_probe = gate_of(scope == 'queue' and '' or scope == 'group' and name or group), false
if held ~= '' then
  local scopes = { '', name ~= '' and name or nil }
  scopes[#scopes + 1] = member ~= '' and group or nil
  held = held_now(scopes, held)
  was_probe = gate.probe == held
  if told ~= '' or string.find(cost, ',', 1, true) then
    -- Needs: permit_spent
    permit_spent(scopes, held, told, cost, granted, true)
  end
  ended({ held, name, member ~= '' and member }, true) -- a probe that meets a 429 opens nothing
end
meet(gate, ms, granted, granted > gate.taught, was_probe, status)
gate.taught = math.max(gate.taught, granted)
admit()
return 1
