-- stats: count the tasks in each state; read the totals, the times, and the age of the oldest ready task.
--
-- Keys: ready delayed invisible waiting meta dead conf stats
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns 16 numbers, then field, count, ... of each bucket in use (tally).
-- Lost reply: safe to send again.
local time = ARGV[1]

-- Needs: now, tally
return tally()
