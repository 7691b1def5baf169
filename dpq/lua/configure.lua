-- configure: agree on what belongs to the queue and not to a client. The first client that names a
-- setting writes it. A queue that nobody has named a setting of or pushed to stays unwritten.
--
-- KEYS[1]  conf       HASH    settings
-- KEYS[2]  stats      HASH    running totals
-- ARGV[1]  format     the storage format this client writes
-- ARGV[2..]           setting, value, ...: only those that the client names
--
-- Returns {setting, value, ...}: all that is stored now, `format` among it once the queue is there.
-- Nothing was written when the format is another one, a named value differs from the stored one, or LIFO
-- would meet aging: the client compares, and says so.
-- Lost reply: safe to send again, the second answer is the same.
local conf, stats = KEYS[1], KEYS[2]
local format, args = ARGV[1], ARGV

local agreed = (redis.call('HGET', conf, 'format') or format) == format
local together = { order = redis.call('HGET', conf, 'order'), aging = redis.call('HGET', conf, 'aging') }
for i = 2, #args, 2 do
  local stored = redis.call('HGET', conf, args[i])
  agreed = agreed and (not stored or stored == args[i + 1])
  together[args[i]] = stored or args[i + 1]
end
if together.order == 'lifo' and tonumber(together.aging or 0) > 0 then
  agreed = false
end
if agreed and (#args > 1 or redis.call('EXISTS', stats) == 1) then
  redis.call('HSET', conf, 'format', format, unpack(args, 2))
end
return redis.call('HGETALL', conf)
