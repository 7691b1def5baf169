-- push: add tasks, all or none, ready or delayed.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  closed     ZSET    group -> opens, ms
-- KEYS[7]  payload    HASH    id -> bytes
-- KEYS[8]  meta       HASH    id -> record
-- KEYS[9]  dead       ZSET    id -> when, ms
-- KEYS[10] keys       HASH    unique key -> id
-- KEYS[11] conf       HASH    settings
-- KEYS[12] stats      HASH    running totals
-- KEYS[13] wake       ZSET    the marker that waiting consumers block on
-- KEYS[14] tick       ZSET    the marker that daemons block on
-- KEYS[15] limits     HASH    what is limited -> how
-- KEYS[16] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[17] tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2..]           a task: id, spec, payload. The spec is "max cost delay priority expires_in residual
--                     mode", the schedule if it has one (see _recur; of a cron task `first` says when,
--                     of others the delay), its options (docs/design.md), TAB, group, TAB, key; times in ms;
--                     mode is k(eep), u(pdate), r(aise_priority), a(gain, for rerun) or e(rror). None:
--                     only the time is asked for. At the end the number of partitions as the client
--                     knows it, unless it is one
--
-- Returns {status, index, holder, ...}: 0 done, 1 the queue is not there: configure it and come again,
-- 2 and the time, ms; -3 the key is taken (mode e), -4 the key's holder is in another group; {-7, ...} to a client
-- that counts partitions wrong (_same), {-8, ...} to one that knows another format (_known); all but 0 change
-- nothing. Each index names a push that met a holder of its key, with the holder's id.
-- Lost reply: an id that is stored already is left alone, so sending again is safe while the first copy
-- lives. A repeated update sets the same once more; a repeated rerun may run the task once more.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, stats, wake, tick, limits = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local gates, tracked = KEYS[16], KEYS[17]
local now, args = ARGV[1], ARGV

-- @include _now
if #args == 1 then
  return { 2, stamp }
end
local partitions = #args % 3 == 2 and table.remove(args) or nil
-- @include _bounds
local settings = redis.call('HMGET', conf, 'format', 'order', 'aging', 'aging_since', 'fairness', 'shut_until',
  'partitions')
if not settings[1] then
  return { 1 }
end
local format, stored = settings[1], settings[7]
-- @include _known
-- @include _same
-- @include _begin
local ids, holders, claims, fresh, met = {}, {}, {}, 0, false
for i = 2, #args, 3 do
  ids[#ids + 1] = args[i]
end
local known = redis.call('HMGET', meta, unpack(ids))
for i = 1, #ids do
  local spec = args[3 * i]
  if not known[i] then
    fresh = fresh + 1
    if string.byte(spec, -1) ~= 9 then -- it ends in a key
      -- @include _claim
    end
  end
end

local lifo, rate, aging = settings[2] == 'lifo', tonumber(settings[3] or 0) or 0, '0'
if rate > 0 and rate <= 1000000 and #settings[3] <= 24 and string.find(settings[3], '^%d[%d.e+-]*$') then
  aging = settings[3] .. '@' .. (string.match(string.sub(settings[4] or '', 1, 15), '^%d+$') or '0')
end
local static = aging == '0'
local now_text = ' ' .. stamp .. ' '
local place, light = 0, true
if fresh > 0 then
  -- @include _draw
  place = draw(stats, 'pushed', fresh)
  if settings[5] == 'round_robin' or settings[7] then
    place = draw(conf, 'turns', fresh, settings[7])
  end
end
local reply, metas, payloads, delays, plain, others = { 0 }, {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  if not known[i] and not holders[i] then
    -- @include _fresh
  end
end
if fresh > 0 then
  redis.call('HSET', meta, unpack(metas))
  redis.call('HSET', payload, unpack(payloads))
end
if #plain > 0 then
  redis.call('ZADD', ready, unpack(plain))
end

if not light then
  redis.call('HSET', conf, 'heavy', '1')
end
for key, claim in pairs(claims) do
  redis.call('HSET', keys, key, claim.id)
end
if #delays > 0 or met or next(others) then
  -- @include _record
  -- @include _notice
  -- @include _groups
  -- @include _rules
  -- @include _pace
  -- @include _gate
  -- @include _keep
  -- @include _settle
  -- @include _place
  -- @include _back
  -- @include _revise
  -- @include _renew
  -- @include _merge
  for id, task in pairs(others) do
    enter(id, task)
  end
  if #delays > 0 then
    redis.call('ZADD', delayed, unpack(delays))
    notice(redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2] - now)
  end
  admit() -- what is new stands where a later push of this batch may meet it
  for i = 1, #ids do
    if holders[i] then
      merge(holders[i], args[3 * i], args[3 * i + 1])
      admit() -- a later push of this batch may meet it again
      reply[#reply + 1] = i
      reply[#reply + 1] = holders[i]
    end
  end
end
if #plain > 0 and (tonumber(settings[6] or 0) or 0) <= instant then
  redis.call('ZADD', wake, '0', 'w')
elseif #plain > 0 then -- the queue's limit lets nothing run before that
  -- @include _notice
  watch(tonumber(settings[6]))
end
return reply
