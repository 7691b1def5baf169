-- delay_group: close a group for a time from now, or open it. The units that its limit has granted stay counted.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group
-- ARGV[3]  ms         from now; 0 opens, and forgets what the host has said is left
--
-- Returns 1. However many tasks wait in the group, one entry moves.
-- Lost reply: safe to send again; the time then counts from the second call.
local time, group, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
if #group > 200 then
  return redis.error_reply('ERR DPQ: the group is too long: at most 200 bytes')
end

-- Needs: now, gate, open_or_close, place, go_on
go_on()
local gate = gate_of(group)
if ms > 0 then
  gate.opens, gate.why, gate.changed = now + ms, 'h', true
  -- Needs: mark
  mark()
else
  gate.changed = gate.changed or gate.observed -- whoever opens a group knows better than its last answer
  gate.observed = nil
end
if ms == 0 and (gate.opens > 0 or gate.probe == 'p') then
  gate.opens, gate.why, gate.changed = 0, '-', true
  gate.probe = gate.probe == 'p' and '-' or gate.probe
end
for _, window in ipairs(gate) do -- the closing of a 429 ends, and so does what it added
  window.owed = window.paid
end
open_or_close(group)
admit()
return 1
