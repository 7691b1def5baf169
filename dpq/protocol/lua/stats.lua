-- stats: count the tasks in each state; read the totals, the times, and the age of the oldest ready task.
--
-- Keys: ready delayed invisible waiting meta dead conf stats
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns 16 numbers, then field, count, ... of each bucket in use (tally), of each class of deaths (bury), and of each
-- status of an answer but 429 (rate_limited).
-- Lost reply: safe to send again.
local time = ARGV[1]

-- Needs: now, tally
local numbers = tally()
local classes = { 'd0', 'd1', 'd2', 'd3', 'm403', 'm503', 'm529', 'm0' }
for i, count in ipairs(redis.call('HMGET', stats, unpack(classes))) do
  if #(count or '') <= 15 and string.match(count or '', '^%d+$') then -- else it is damage
    numbers[#numbers + 1], numbers[#numbers + 2] = classes[i], count
  end
end
return numbers
