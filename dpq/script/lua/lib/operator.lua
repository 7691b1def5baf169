-- operator: tell what an operator has done. `changes` keeps about the last 200 of these events, under the ids that they
-- have in `events`: tasks that fail or die push them out of `events`, and not from there.
-- Needs: event
-- Gives: tell_change(kind, group, detail, ...), which adds an event to both; more fields may follow, as in add_event.
local function tell_change(kind, group, ...)
  local place = add_event(events, '10000', '*', kind, group, '', '', ...)
  if type(place) == 'string' then
    add_event(changes, '200', place, kind, group, '', '', ...)
  end
end
