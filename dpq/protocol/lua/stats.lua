-- stats: count the tasks in each state; read the totals, the times, and the age of the oldest ready task.
--
-- Keys: ready delayed invisible waiting meta dead conf stats
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns name, count, ... of all that is not 0 (totals), and field, count, ... of each bucket in use (tally).
-- Lost reply: safe to send again.
local time = ARGV[1]

-- Needs: now, tally
local counts, reply = tally()
for name, count in pairs(counts) do
  reply[#reply + 1], reply[#reply + 2] = name, count
end
return reply
