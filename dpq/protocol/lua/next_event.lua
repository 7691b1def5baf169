-- next_event: look at what time will bring, without touching it.
--
-- Keys: delayed invisible closed
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns the ms until the next task is due, lease ends or group opens, 0 when one is due now, or -1.
-- Lost reply: safe to send again.
local time = ARGV[1]

-- Needs: now, next
local event = next_event()
return event and math.max(math.ceil(event - now), 0) or -1
