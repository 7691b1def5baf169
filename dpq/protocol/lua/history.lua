-- history: read what the queue counted and held at a moment of each minute, or of each quarter of an hour. It changes
-- nothing.
--
-- Keys: history
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  length     60000 or 900000, ms of a slot
-- ARGV[3]  most       slots at most, from now back: 1440 minutes, or 1344 quarters
--
-- Returns {names, slot, ...}: a list with each name of a value in the slots, and its short name (totals); then the
-- texts of the stored slots (remember), the oldest first.
-- Lost reply: safe to send again.
local time, length, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- Needs: now, totals
local names = {}
for _, each in ipairs({ GAUGES, TOTALS }) do
  for i = 1, #each do
    names[#names + 1] = each[i]
  end
end
local last, size = math.floor(now / length), length == 60000 and 1440 or 1344
local fields, reply = {}, { names }
for i = most - 1, 0, -1 do
  fields[most - i] = string.format('%s%d', length == 60000 and 'm' or 'q', (last - i) % size)
end
for i, text in ipairs(redis.call('HMGET', history, unpack(fields))) do
  local at = text and tonumber(string.match(text, '^%d+ ') or '')
  if at and math.floor(at / length) == last - most + i then -- else the slot is of an older round
    reply[#reply + 1] = text
  end
end
return reply
