-- followed: note that a task has ended for which other tasks wait (push(after=...)).
-- A task that waits has a note (notes, AFTER): "b" or "r", which says if it is buried or runs once one of those tasks
-- dies; then \1 and the id of each task that it waits for. It is in delayed (notice). A task for which others
-- wait has a "+" in front of that note, or alone. So its record is no short one, and ack_plain refuses it.
-- In followers stand "id TAB follower" for each task that a task waits for; and "TAB how TAB id" for a task that has
-- ended, until upkeep has released or buried all its followers (followers). How: done, dead or cancelled.
-- Needs: notice, notes
-- Gives: end_followed(id, notes, how), to be called when a task ends, with its notes or its record;
--        unfollow(id, notes), to be called when a task that may wait is removed, with its notes or its record;
--        follow_again(id, notes), which stores the entries of a task that waits;
--        followed.ended, how many tasks have ended so far in this script.
local followed = { ended = 0 }

local function end_followed(id, notes, how)
  if string.find(notes, FOLLOWED) then
    redis.call('ZADD', followers, '0', '\t' .. how .. '\t' .. id)
    notice(0)
    followed.ended = followed.ended + 1
  end
end

local function change_entries(verb, id, notes)
  local _, ids = string.match(notes, WAITS)
  for each in string.gmatch(ids or '', '[^\1]+') do
    if verb == 'ZADD' then
      redis.call('ZADD', followers, '0', each .. '\t' .. id)
    else
      redis.call('ZREM', followers, each .. '\t' .. id)
    end
  end
end

local function unfollow(id, notes)
  change_entries('ZREM', id, notes)
end

local function follow_again(id, notes)
  change_entries('ZADD', id, notes)
end
