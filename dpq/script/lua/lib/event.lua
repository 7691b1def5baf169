-- event: add to the stream of events what people want to see. The stream keeps about the last 10 000 events. A task
-- that is pushed, runs and ends well has none.
-- Needs: now, notes
-- Gives: add_event(stream, most, place, kind, group, member, id, detail, ...), which adds an event to a stream of about
--        `most`; the names and values of more fields may follow, and then the detail is not cut. If the user has no
--        rights for the stream, it adds nothing;
--        tell(kind, group, member, id, detail, ...), which adds one to `events`;
--        tell_error(kind, id, task, text, source), which adds the end of an attempt, before the delivery is counted.
--        The source is "worker TAB frames", or "", or nil;
--        tell_change(kind, group, detail, ...), which adds what an operator has done. `changes` keeps about the last
--        200 of these events, under the ids that they have in `events`: tasks that fail push them out of `events` only;
--        is_repeated(kind, group, member), true if the last event was the same and is less than a second old. So many
--        events at once become one a second.
local function is_repeated(kind, group, member)
  local last = redis.pcall('XREVRANGE', events, '+', '-', 'COUNT', '1')
  local fields = last[1] and last[1][2] or {}
  return fields[2] == kind and fields[4] == group and fields[6] == member
    and math.abs(now - (tonumber(fields[12]) or 0)) < 1000 -- a clock may go back
end

local function add_event(stream, most, place, kind, group, member, id, detail, ...)
  return redis.pcall('XADD', stream, 'MAXLEN', '~', most, place, 'kind', kind, 'group', group, 'member', member, 'task',
    id, 'detail', string.sub(detail, 1, ... and -1 or 500), 'at', stamp, ...)
end

local function tell(...)
  add_event(events, '10000', '*', ...)
end

local function tell_error(kind, id, task, text, source)
  local open = task.delivery == '-' or task.delivery == 'd' -- else the attempt was counted when the lease ended
  local worker, frames = string.match(source or '', '^([^\t]*)\t?(.*)$')
  local member = string.match(task.options, RAN_AS) or ''
  local attempt = math.max(task.attempts + (open and 1 or 0), 1)
  tell(kind, task.group, member, id, string.sub(text, 1, 500), 'attempt', attempt, 'worker',
    string.sub(worker, 1, 100), 'frames', string.sub(frames, 1, 600))
end

local function tell_change(kind, group, ...)
  local place = add_event(events, '10000', '*', kind, group, '', '', ...)
  if type(place) == 'string' then
    add_event(changes, '200', place, kind, group, '', '', ...)
  end
end
