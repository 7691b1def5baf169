-- events: read the stream of events, or the trail. It changes nothing.
--
-- Keys: events trail
-- ARGV[1]  after      the last id that the caller knows; "" reads the newest events
-- ARGV[2]  most       events at most
-- ARGV[3]  which      "trail", or "" for the events
--
-- Returns {id, {field, value, ...}, id, ...}, the oldest first.
-- Lost reply: safe to send again.
local after, most, which = ARGV[1], ARGV[2], ARGV[3]

local stream, found, reply = which == 'trail' and trail or events, {}, {}
if after ~= '' then
  found = redis.call('XRANGE', stream, '(' .. after, '+', 'COUNT', most)
else
  local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', most)
  for i = #newest, 1, -1 do
    found[#found + 1] = newest[i]
  end
end
for _, event in ipairs(found) do
  reply[#reply + 1], reply[#reply + 2] = event[1], event[2]
end
return reply
