-- permit: end the lease of a permit, or make it longer.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group      "" for the queue's limit alone
-- ARGV[3]  held       what acquire, or the last call, has answered
-- ARGV[4]  ms         from now; 0 ends it
--
-- Returns what is held from now on; "" if the lease has ended.
-- Lost reply: safe to send again; the second call finds the lease by its id.
local time, group, held, ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

-- Needs: now, go_on, gate, open_or_close, place
go_on()
local member, now_held = held, ''
for _, scope in ipairs({ group, '' }) do
  if not redis.call('ZSCORE', tracked, scope .. '\t' .. member) then
    local from, to = '[' .. scope .. '\t~', '(' .. scope .. '\t\127'
    local others = redis.call('ZRANGEBYLEX', tracked, from, to, 'LIMIT', '0', '1000')
    for _, other in ipairs(others) do
      if string.sub(other, #scope + 17) == string.sub(held, 16) then
        member = string.sub(other, #scope + 2)
      end
    end
  end
end
if ms == 0 then
  ended(member, group)
  admit()
  return ''
end
for _, scope in ipairs({ '', group ~= '' and group or nil }) do
  if redis.call('ZREM', tracked, scope .. '\t' .. member) == 1 then
    local gate = gate_of(scope)
    now_held = string.format('~%013.0f', now + ms) .. string.sub(member, 15)
    redis.call('ZADD', tracked, '0', scope .. '\t' .. now_held)
    gate.probe = gate.probe == member and now_held or gate.probe
    gate.booked = gate.booked or { 0, 0, 0, 0, 0 }
    gate.booked[5], gate.changed = math.max(gate.booked[5], now + ms), true
  end
end
admit()
return now_held
