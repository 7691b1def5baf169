-- settle_followers: let tasks go on that wait for tasks which are not stored, or are dead. Other tasks for which some
-- wait get the mark that says so. An import ends with this.
--
-- Keys: meta dead conf wake tick followers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  cursor     "0" to begin
-- ARGV[3]  count      entries to look at, about
--
-- Returns the next cursor, "0" at the end.
-- Lost reply: safe to send again.
local time, cursor, count = ARGV[1], ARGV[2], ARGV[3]

-- Needs: now, go_on, record, notes, followed, marks
go_on()
local page = redis.call('ZSCAN', followers, cursor, 'COUNT', count)
for i = 1, #page[2], 2 do
  local ahead = string.match(page[2][i], '^([^\t]+)\t.')
  local raw = ahead and redis.call('HGET', meta, ahead)
  local task = raw and read(raw)
  if ahead and not raw then
    end_followed(ahead, AFTER .. '+', 'done')
  elseif task and redis.call('ZSCORE', dead, ahead) then
    end_followed(ahead, AFTER .. '+', 'dead')
  elseif task and not string.find(task.options, FOLLOWED) then
    set_note(task, AFTER, '+' .. (note_of(task, AFTER) or ''))
    redis.call('HSET', meta, ahead, write(task))
  end
end
return page[1]
