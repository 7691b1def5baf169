-- delay_group: close a group for a time from now, or open it. Units that the group's limit has granted stay counted.
--
-- Keys: ready invisible waiting groups closed meta conf wake tick limits gates tracked events
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group
-- ARGV[3]  ms         number: from now until the group opens; 0 opens the group now, and forgets the budgets that its
--                     host has named; "inf" closes it until a call opens it
-- ARGV[4]  member     of the group's pool, to close or open only this member; or ""
--
-- Returns 1. However many tasks wait in the group, the call moves a single entry.
-- Lost reply: safe to send again; the time then counts from the second call.

-- Needs: now, gate, open_or_close, place, go_on, event, notice
go_on()
local gate = gate_of(member == '' and group or group .. '\t' .. member)
local without_end = ms == math.huge
if ms > 0 then
  gate.opens, gate.why, gate.changed = without_end and UNTIL_OPENED or now + ms, 'h', true
  redis.call('HSET', conf, 'gated', '1')
  tell('closed', group, member, '', without_end and 'until it is opened' or string.format('until %.0f', now + ms))
else
  if gate.opens > 0 or gate.probe == 'p' or gate.told then
    tell('opened', group, member, '', '')
  end
  gate.changed = gate.changed or gate.told -- an explicit opening overrules the host's last answer
  for name, meter in pairs(gate.meters or {}) do
    gate.meters[name] = meter.rule and meter
  end
end
if ms == 0 and (gate.opens > 0 or gate.probe == 'p') then
  gate.opens, gate.why, gate.changed = 0, '-', true
  gate.probe = gate.probe == 'p' and '-' or gate.probe
end
for _, window in ipairs(gate) do -- the closing by a 429 ends, and so do the units that it added
  window.owed = window.paid
end
open_or_close(group)
admit()
return 1
