-- next_event: read when the next task becomes ready by time alone. It changes nothing.
--
-- Keys: delayed invisible closed followers
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns the ms until the next task is due, lease ends or group opens; 0 if it has come, or if a task has ended whose
-- followers are not released yet; -1 if there is none.
-- Lost reply: safe to send again.

-- Needs: now, moments
local event = next_event()
if string.byte(redis.call('ZRANGE', followers, '0', '0')[1] or '') == 9 then -- an end (followed)
  return 0
end
return event and math.max(math.ceil(event - now), 0) or -1
