-- configure: agree on what belongs to the queue and not to a client. The first client that names a
-- setting writes it.
--
-- KEYS[1]  conf       HASH    settings
-- KEYS[2]  stats      HASH    running totals
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  format     the storage format this client writes
-- ARGV[3]  create     "1": the queue is to be there from now on; else only a named setting makes it so
-- ARGV[4..]           setting, value, ...: only those that the client names
--
-- Returns {setting, value, ...}: all that is stored now, `format` among it once the queue is there.
-- Nothing was written when the format is another one, a named value differs from the stored one (a queue that
-- is there has one partition unless its first one says more), LIFO would meet aging, or round robin one of
-- them: the client compares, and says so. Nor when conf is of another type: {}.
-- Lost reply: safe to send again, the second answer is the same.
local conf, stats = KEYS[1], KEYS[2]
local now, format, create, args = ARGV[1], ARGV[2], ARGV[3], ARGV

-- @include _now
local there = redis.pcall('HGETALL', conf)
if there.err then -- a key of another type says nothing, so that check and repair get to see it
  return string.find(there.err, 'WRONGTYPE', 1, true) and {} or there
end
local known = #there > 0 and not string.find(conf, '{[^}]*{') -- such a key is of another partition than the first
local agreed = (redis.call('HGET', conf, 'format') or format) == format
local together = {}
for _, name in ipairs({ 'order', 'aging', 'fairness' }) do
  together[name] = redis.call('HGET', conf, name)
end
for i = 4, #args, 2 do
  local stored = redis.call('HGET', conf, args[i]) or known and args[i] == 'partitions' and '1'
  agreed = agreed and (not stored or stored == args[i + 1])
  together[args[i]] = stored or args[i + 1]
end
local lifo, ages = together.order == 'lifo', tonumber(together.aging or 0) ~= 0 -- or it cannot be read
if lifo and ages or together.fairness == 'round_robin' and (lifo or ages) then
  agreed = false
end
if agreed and (create == '1' or #args > 3) then
  redis.call('HSET', conf, 'format', format, unpack(args, 4))
  if ages and not redis.call('HGET', conf, 'aging_since') then
    redis.call('HSETNX', conf, 'aging_since', stamp) -- the tasks before count as due then
  end
  if together.fairness == 'round_robin' and not redis.call('HGET', conf, 'turns') then
    redis.call('HSETNX', conf, 'turns', redis.call('HGET', stats, 'pushed') or '0') -- on from the places so far
  end
end
return redis.call('HGETALL', conf)
