-- configure: store the settings that a client names, then read all settings of the queue.
--
-- Keys: conf stats limits
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  format     the storage format that the client knows, and that a new queue gets, unless its `order` is "min"
-- ARGV[3]  create     "1": create the queue; else only a named setting creates it. "2": restore the limits, too, from
--                     their copies, since a pop has found that limits are lost.
--                     "3": replace the bounds by the named ones
-- ARGV[4..]           setting, value, ...: only the settings that the client names
--
-- Returns {setting, value, ...}: all settings that are stored now, with `format` if the queue exists. For a lost
-- setting it returns the copy; a call that writes restores the setting. In these cases it writes nothing, and leaves
-- the error to the client: the queue has another format; a named value differs from the stored value (without
-- `partition_count` a queue has one partition); LIFO would meet aging; turns of groups would meet LIFO or aging; turns
-- by units would meet partitions; `order` would become "min" when tasks may be stored. Returns {} if conf is of another
-- type (nothing written).
-- Lost reply: safe to send again, the second answer is the same.
local time, format, create, args = ARGV[1], ARGV[2], ARGV[3], ARGV

-- Needs: now
local OF_MIN = '04' -- that format is of queues whose smallest number runs first (refusal)
local there = redis.pcall('HGETALL', conf)
if there.err then -- ignore a key of another type: check and repair report it
  return string.find(there.err, 'WRONGTYPE', 1, true) and {} or there
end
-- Needs: lost, restore, noted
local lost, copy_of = settings_lost(), {}
for i = 1, #lost, 2 do
  copy_of[lost[i]] = lost[i + 1]
end
local function stored(name)
  local value = copy_of[name] or redis.call('HGET', conf, name)
  return (name ~= 'format' or string.match(value or '', '^%d+$')) and value or nil
end

local known = #there + #lost > 0 and not string.find(conf, '{[^}]*{') -- only a later partition has such a key
local agreed = (stored('format') or format) == format or stored('format') == OF_MIN
local together, bounded = {}, false
for _, name in ipairs({ 'order', 'aging', 'fairness', 'partition_count' }) do
  together[name] = stored(name)
end
for i = 4, #args, 2 do
  local value = stored(args[i]) or known and args[i] == 'partition_count' and '1'
  agreed = agreed and (not value or value == args[i + 1] or create == '3')
  together[args[i]] = value or args[i + 1]
  bounded = bounded or string.find(args[i], '^max_')
end
local lifo, ages = together.order == 'lifo', tonumber(together.aging or 0) ~= 0 -- also if it cannot be read
local turns, form = together.fairness or 'none', together.order == 'min' and OF_MIN or format
local by_share = turns == 'time' or string.find(turns, '^units')
if lifo and ages or (turns == 'round_robin' or by_share) and (lifo or ages)
  or by_share and (together.partition_count or '1') ~= '1' then
  agreed = false
elseif together.order == 'min' and stored('format') and not stored('order') then -- it was "fifo" so far
  local counts = redis.pcall('HMGET', stats, 'pushed', 'kept.format') -- the copy is missing if the counts are lost
  agreed = agreed and (counts[1] or '0') == '0' and (counts[2] or not stored('partitions'))
    and (stored('turns') or '0') == '0' and (stored('partition_count') or '1') == '1' -- turns: an import counts here
end
if not agreed or create == '0' and #args == 3 then
  for _, text in ipairs(lost) do there[#there + 1] = text end
  return there
end

if #there + #lost > 0 then -- full memory refuses new queues only
  -- Needs: go_on
  go_on()
end
restore(lost)
-- Programs of 22 November 2026 compare only `partitions` at each call, with their number of partitions. This text is no
-- number, so each call of theirs is refused (docs/design.md, "Another storage format"). The number of partitions stands
-- in `partition_count`.
redis.call('HSET', conf, 'format', form, 'partitions', '(storage format ' .. form .. ')', unpack(args, 4))
if ages and not redis.call('HGET', conf, 'aging_since') then
  redis.call('HSETNX', conf, 'aging_since', stamp) -- the tasks before count as due at this time
end
if turns == 'round_robin' and not redis.call('HGET', conf, 'turns') then
  redis.call('HSETNX', conf, 'turns', redis.call('HGET', stats, 'pushed') or '0') -- continue the sequence so far
end
if bounded then
  redis.call('HSETNX', conf, 'partition_count', '1') -- so push_plain refuses each push, and push looks at the bounds
end
if create == '2' then -- all in a single call: no task of these groups runs before its end
  local texts = redis.call('HGETALL', stats)
  for i = 1, #texts, 2 do
    local field = string.match(texts[i], '^kept%.(groups)$') or string.match(texts[i], '^kept%.(group:.+)$')
    if field and redis.call('HEXISTS', limits, field) == 0 then
      redis.call('HSET', limits, field, texts[i + 1])
    end
  end
  local queue, count = limits_there()
  local queue_noted, noted = limits_noted()
  if not noted or count >= noted and queue >= queue_noted then -- else some are lost for good: keep their number
    note_limits(queue, count)
  end
end
local names, values, copied = settings()
for i, name in ipairs(names) do
  if values[i] and not copied[i] then
    redis.pcall('HSET', stats, 'kept.' .. name, values[i])
  end
end
return redis.call('HGETALL', conf)
