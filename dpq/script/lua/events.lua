-- events: read some of the stream of events, in one direction. It changes nothing.
--
-- Keys: events changes
-- ARGV[1]  way        "newer": the events behind a position; "older": the events before it, the newest first
-- ARGV[2]  place      the position, an id; "" is the end of the stream
-- ARGV[3]  look       number: events to look at, at most
-- ARGV[4]  task       "", or an id: only the events of this task
-- ARGV[5]  by_hand    "1": only what operators have done, from `changes`; "" for all
-- ARGV[6..]           only the events of these kinds; none for all
--
-- Returns {place, id, {field, value, ...}, id, ...}. The place is where the next call goes on, or "" if it would find
-- nothing.
-- Lost reply: safe to send again.

local kinds, page, stream = {}, nil, by_hand == '1' and changes or events
for i = 6, #args do
  kinds[args[i]] = true
end
if way == 'newer' then
  page = redis.call('XRANGE', stream, '(' .. place, '+', 'COUNT', look)
else
  page = redis.call('XREVRANGE', stream, place == '' and '+' or '(' .. place, '-', 'COUNT', look)
end
local reply = { #page == look and page[#page][1] or '' }
for _, event in ipairs(page) do
  local fields = event[2] -- in the order of the file event
  if (task == '' or fields[8] == task) and (not next(kinds) or kinds[fields[2]]) then
    reply[#reply + 1], reply[#reply + 2] = event[1], fields
  end
end
return reply
