-- results: read the results that are kept, in the order in which their tasks were finished. It changes nothing.
--
-- Keys: results
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  after      the number of the last result that the caller knows, and behind a "-" its time; 0 begins with the
--                     oldest. If another result has that number (the server has lost writes), the oldest come again
-- ARGV[3]  most       number: results at most
-- ARGV[4]  room       number: bytes of JSON at most; the first result comes in any case
--
-- Returns {the number to go on behind, "1" if the caller is to go on at once, then number, time, end of its time, id
-- and JSON of each result}. Times are ms. One call looks at a thousand numbers at most.
-- Lost reply: safe to send again.

-- Needs: now
local first, last = string.match(redis.call('HGET', results, '') or '', '^(%d+) (%d+)')
first, last = tonumber(first or ''), tonumber(last or '')
local before, moment = string.match(after, '^(%d+)%-?(%d*)$')
local stands = moment ~= '' and string.match(redis.call('HGET', results, before) or '', '^%d+ (%d+)')
if tonumber(before) > (last or math.huge) or stands and stands ~= moment then
  before = 0
end
local number, names, reply = math.max(first or 0, before + 1), {}, { after, '' }
if not first or number > last then
  return reply
end
local stop = math.min(last, number + 999)
for each = number, stop do
  names[#names + 1] = string.format('%.0f', each)
end
local known = number - 1
for i, head in ipairs(redis.call('HMGET', results, unpack(names))) do
  local expires, at, length, id = string.match(head or '', '^(%d+) (%d+) (%d+) (.*)$')
  if id and tonumber(expires) > now then
    if most == 0 or reply[3] and tonumber(length) > room then
      break
    end
    local body = redis.call('HGET', results, names[i] .. '.')
    if body then
      most, room = most - 1, room - #body
      for _, each in ipairs({ names[i], at, expires, id, body }) do
        reply[#reply + 1] = each
      end
    end
  end
  known = number + i - 1
end
reply[1], reply[2] = string.format('%.0f', known), known < last and most > 0 and '1' or ''
return reply
