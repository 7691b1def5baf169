-- events: read the stream of events. Changes nothing.
--
-- Keys: events
-- ARGV[1]  after      the last id that is known; "" reads the newest ones
-- ARGV[2]  most       events at most
--
-- Returns {id, {field, value, ...}, id, ...}, the oldest first.
-- Lost reply: safe to send again.
local after, most = ARGV[1], ARGV[2]

local found, reply = {}, {}
if after ~= '' then
  found = redis.call('XRANGE', events, '(' .. after, '+', 'COUNT', most)
else
  local newest = redis.call('XREVRANGE', events, '+', '-', 'COUNT', most)
  for i = #newest, 1, -1 do
    found[#found + 1] = newest[i]
  end
end
for _, event in ipairs(found) do
  reply[#reply + 1], reply[#reply + 2] = event[1], event[2]
end
return reply
