-- configure: store the settings that a client names, then read all settings of the queue.
--
-- Keys: conf stats waiting groups meta dead tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  format     the storage format that the client knows, and that a new queue gets
-- ARGV[3]  create     "1": create the queue; else only a named setting creates it. "2": replace the bounds by the named
--                     ones, and call the producers that have room now
-- ARGV[4..]           setting, value, ...: only the settings that the client names
--
-- Returns {setting, value, ...}: all settings that are stored now, with `format` if the queue exists; {} if conf is of
-- another type. It writes nothing, and leaves the error to the client, if the queue has another format; if a named
-- value differs from the stored one; and for LIFO with aging, turns of groups with either, or "min" beside tasks.
-- Lost reply: safe to send again, the second answer is the same.

-- Needs: now
local there = redis.pcall('HGETALL', conf)
if there.err then -- ignore a key of another type: check reports it
  return string.find(there.err, 'WRONGTYPE', 1, true) and {} or there
end
local stored = {}
for i = 1, #there, 2 do
  stored[there[i]] = there[i + 1]
end

local agreed = (stored.format or format) == format
local together, bounded = {}, false
for _, name in ipairs({ 'order', 'aging', 'fairness' }) do
  together[name] = stored[name]
end
for i = 4, #args, 2 do
  local value = stored[args[i]]
  agreed = agreed and (not value or value == args[i + 1] or create == '2')
  together[args[i]] = value or args[i + 1]
  bounded = bounded or string.find(args[i], '^max_')
end
local lifo, ages = together.order == 'lifo', tonumber(together.aging or 0) ~= 0 -- also if it cannot be read
local turns = together.fairness or 'none'
if lifo and ages or (turns == 'round_robin' or string.find(turns, '^units')) and (lifo or ages) then
  agreed = false
elseif together.order == 'min' and stored.format and not stored.order then -- it was "fifo" so far
  agreed = agreed and (redis.call('HGET', stats, 'pushed') or '0') == '0'
    and (stored.turns or '0') == '0' -- turns: an import counts here
end
if not agreed or create == '0' and #args == 3 then
  return there
end

if #there > 0 then -- full memory refuses new queues only
  -- Needs: go_on
  go_on()
end
redis.call('HSET', conf, 'format', format, unpack(args, 4))
if ages and not stored.aging_since then
  redis.call('HSETNX', conf, 'aging_since', stamp) -- the tasks before count as due at this time
end
if turns == 'round_robin' and not stored.turns then
  redis.call('HSETNX', conf, 'turns', redis.call('HGET', stats, 'pushed') or '0') -- continue the sequence so far
end
if bounded then
  redis.call('HSETNX', conf, 'bounded', '1') -- so push_plain refuses each push, and push looks at the bounds
end
if create == '2' then
  -- Needs: producers
  local lines = {}
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', tracked, '[\14', '(\15')) do
    lines[string.match(entry, '^\14([^\14]*)')] = true
  end
  call_all(lines)
end
return redis.call('HGETALL', conf)
