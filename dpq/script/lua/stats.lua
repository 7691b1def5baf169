-- stats: count the tasks in each state; read the totals, the times, and the age of the oldest ready task.
--
-- Keys: ready delayed invisible waiting meta dead conf stats recent
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns name, count, ... of all that is not 0 (totals; `following` tasks wait for the end of others; seen_keys), and
-- field, count, ... of each bucket in use (tally).
-- Lost reply: safe to send again.

-- Needs: now, tally, notice
local counts, reply = tally()
counts.following = redis.call('ZCOUNT', delayed, UNTIL_OPENED, '+inf')
counts.seen_keys = tonumber(redis.pcall('ZCARD', recent)) -- a key of another type: types reports it
for name, count in pairs(counts) do
  reply[#reply + 1], reply[#reply + 2] = name, count
end
return reply
