-- trail: note what happens to each task, if the queue keeps a trail. `trail_max_events` is the number of events that it
-- keeps. docs/storage.md, "The trail".
-- Keys: conf trail
-- Needs: now
-- Gives: note(kind, group, member, id, detail). If the user has no rights for the stream, it notes nothing.
local trail_kept

local function note(kind, group, member, id, detail)
  trail_kept = trail_kept or tonumber(redis.call('HGET', conf, 'trail_max_events') or '0') or 0
  if trail_kept > 0 then
    redis.pcall('XADD', trail, 'MAXLEN', '~', trail_kept, '*', 'kind', kind, 'group', group, 'member', member,
      'task', id, 'detail', string.sub(detail, 1, 500), 'at', stamp)
  end
end
