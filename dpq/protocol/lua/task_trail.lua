-- task_trail: read the events of one task in the trail, from the newest event back.
--
-- Keys: trail
-- ARGV[1]  id
-- ARGV[2]  before     the id of an event, to look at older events only; "" begins with the newest one
-- ARGV[3]  look       events to look at, at most
--
-- Returns {how many events were looked at; the id of the oldest of them, or "" if no older one is left; its moment, ms,
-- or ""; then id and {field, value, ...} of each event of the task}, the newest first. It changes nothing.
-- Lost reply: safe to send again.
local id, before, look = ARGV[1], ARGV[2], tonumber(ARGV[3])

local page = redis.call('XREVRANGE', trail, before == '' and '+' or '(' .. before, '-', 'COUNT', look)
local function value_of(event, name)
  for i = 1, #event[2] - 1, 2 do
    if event[2][i] == name then
      return event[2][i + 1]
    end
  end
  return ''
end
local oldest = #page == look and page[look]
local reply = { #page, oldest and oldest[1] or '', oldest and value_of(oldest, 'at') or '' }
for _, event in ipairs(page) do
  if value_of(event, 'task') == id then
    reply[#reply + 1], reply[#reply + 2] = event[1], event[2]
  end
end
return reply
