-- await_room: let a producer whose push was refused wait for room (QueueFullError); or let it stop waiting.
--
-- Keys: waiting groups meta dead conf tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  group      whose bound has refused the push; "" for the bound of the queue
-- ARGV[3]  place      of the producer: its id, or what an earlier call has returned
-- ARGV[4]  ms         number: until the producer is forgotten, unless it asks again; 0: it stops waiting
-- ARGV[5]  channel    where it hears that it is called; or ""
--
-- Returns {1, place}: it stands in the line, and asks again when it is called. {0, place}: there is room, so it pushes
-- now; or it does not wait any more.
-- Lost reply: safe to send again with the same place; a producer that stands in the line twice is called twice.

-- Needs: now, room, producers, go_on
go_on()
if not string.find(place, '\11', 1, true) then
  place = string.format('%013.0f\11', now) .. place
end
local mine = '\14' .. group .. '\14' .. place .. '\14'
for _, entry in ipairs(redis.call('ZRANGEBYLEX', tracked, '[' .. mine, '(' .. mine .. '\127')) do
  redis.call('ZREM', tracked, entry)
end
if ms > 0 and room_in(group) < 1 then
  local ends = now + ms
  redis.call('ZADD', tracked, '0', mine .. string.format('%.0f ', ends) .. channel)
  if not ((tonumber(redis.call('HGET', conf, 'room_wanted') or '') or 0) >= ends) then
    redis.call('HSET', conf, 'room_wanted', string.format('%.0f', ends)) -- so pop looks at the lines of groups
  end
  return { 1, place }
end
if ms == 0 then -- the room that it has heard of, and not taken, is for the next one
  call_producers(group)
end
return { 0, place }
