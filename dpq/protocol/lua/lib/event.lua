-- event: add to the stream of events what people want to see. The stream keeps about the last thousand events.
-- Keys: events
-- Needs: now, trail
-- Gives: tell(kind, group, member, id, detail, ...), which adds an event; the names and values of more fields may
--        follow, and then the detail is not cut. If the user has no rights for the stream, it adds nothing;
--        is_repeated(kind, group, member), true if the last event was the same and is less than a second old. So many
--        events at once become one a second.
local function is_repeated(kind, group, member)
  local last = redis.pcall('XREVRANGE', events, '+', '-', 'COUNT', '1')
  local fields = last[1] and last[1][2] or {}
  return fields[2] == kind and fields[4] == group and fields[6] == member
    and math.abs(now - (tonumber(fields[12]) or 0)) < 1000 -- a clock may go back
end

local function tell(kind, group, member, id, detail, ...)
  redis.pcall('XADD', events, 'MAXLEN', '~', '1000', '*', 'kind', kind, 'group', group, 'member', member, 'task', id,
    'detail', string.sub(detail, 1, ... and -1 or 500), 'at', stamp, ...)
  note(kind, group, member, id, detail)
end
