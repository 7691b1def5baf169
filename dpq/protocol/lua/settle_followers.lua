-- settle_followers: let tasks go on that wait for tasks which are not stored, or are dead. An import ends with this.
--
-- Keys: meta dead conf wake tick followers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  cursor     "0" to begin
-- ARGV[3]  count      entries to look at, about
--
-- Returns the next cursor, "0" at the end.
-- Lost reply: safe to send again.
local time, cursor, count = ARGV[1], ARGV[2], ARGV[3]

-- Needs: now, go_on, followed, marks
go_on()
local page = redis.call('ZSCAN', followers, cursor, 'COUNT', count)
for i = 1, #page[2], 2 do
  local ahead = string.match(page[2][i], '^([^\t]+)\t.')
  if ahead and redis.call('ZSCORE', dead, ahead) then
    end_followed(ahead, AFTER .. '+', 'dead')
  elseif ahead and redis.call('HEXISTS', meta, ahead) == 0 then
    end_followed(ahead, AFTER .. '+', 'done')
  end
end
return page[1]
