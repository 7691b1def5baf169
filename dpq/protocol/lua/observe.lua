-- observe: store a budget, which is what a host says is left of its limit and until when. It stands in the gate of a
-- group or of the queue. Tasks get no more than the budget; own limits hold beside it.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  scope      a group; a group, TAB and a member of its pool; or "" for the queue
-- ARGV[3]  id         of the task that got the host's answer; or the lease of a permit, as acquire has answered; or ""
-- ARGV[4]  token      of the delivery; for a permit "1" if its lease ends with the answer, else ""
-- ARGV[5..]           a budget: unit, units left, ms from now until there are more, the units that a task takes of it,
--                     the units to which it refills evenly until then, or ""; the whole limit, or ""; its window, ms,
--                     or 0; ...
--
-- Returns 1. The host may not know yet of the requests under way. So each other lease of the scope counts as a task
-- that takes as much as this task. An answer with the same reset (within 2 s) never raises the units left. At the reset
-- the whole limit is left again.
-- {-8, ...}: the client knows another format (refusal).
-- Lost reply: safe to send again; the time then counts from the second call.
local time, scope, id, token, args = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV
if #scope > 301 then
  return redis.error_reply('ERR DPQ: the group is too long: at most 200 bytes, a member 100')
end

-- Needs: now, refusal
local refused = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
end
-- Needs: gate, open_or_close, ended, place, go_on, mark, observed, held, booked
go_on()
local gate = gate_of(scope)
if gate.rest then -- no task runs in this scope: its gate stays as it is
  return 1
end
local out, name, member = under_way(gate), string.match(scope, '^([^\t]*)\t?(.*)$')
if is_permit(id) then
  id = held_now({ scope }, id)
  out = math.max(0, out - (redis.call('ZSCORE', tracked, scope .. '\t' .. id) and permit_out(id) and 1 or 0))
  if token == '1' then
    ended({ id, name, member ~= '' and member })
  end
elseif id ~= '' and string.match(redis.call('HGET', meta, id) or '', '^(%d+) ') == token
  and redis.call('ZSCORE', invisible, id) then
  out = math.max(0, out - 1)
end
for i = 5, #args, 7 do
  store_budget(gate, args[i], tonumber(args[i + 1]), now + tonumber(args[i + 2]), out * tonumber(args[i + 3]),
    tonumber(args[i + 4]), tonumber(args[i + 5]), tonumber(args[i + 6]))
end
if scope == '' then
  stirred[''] = true -- waiters sleep until a moment of the old budget
else
  mark()
  open_or_close(name)
end
admit()
return 1
