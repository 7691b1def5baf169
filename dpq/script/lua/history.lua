-- history: read what the queue counted and held at a moment of each minute, or of each quarter of an hour; or what
-- limits have granted until a moment of each minute. It changes nothing.
--
-- Keys: history
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  ring       "m", minutes; "q", quarters; "u", minutes of what was granted
-- ARGV[3]  most       number: slots at most, from now back: 1440 minutes, 1344 quarters, or 60 minutes of what was
--                     granted
--
-- Returns {names, slot, ...}: a list with each name of a value in the slots, and its short name (tally); then the
-- texts of the stored slots (remember), the oldest first.
-- Lost reply: safe to send again.

-- Needs: now, tally
local names = {}
for _, each in ipairs({ GAUGES, TOTALS }) do
  for i = 1, #each do
    names[#names + 1] = each[i]
  end
end
local length, size = ring == 'q' and 900000 or 60000, ({ m = 1440, q = 1344, u = 60 })[ring]
local last = math.floor(now / length)
local fields, reply = {}, { names }
for i = most - 1, 0, -1 do
  fields[most - i] = string.format('%s%d', ring, (last - i) % size)
end
for i, text in ipairs(redis.call('HMGET', history, unpack(fields))) do
  local at = text and tonumber(string.match(text, '^%d+ ') or '')
  if at and math.floor(at / length) == last - most + i then -- else the slot is of an older round
    reply[#reply + 1] = text
  end
end
return reply
