-- cancel: remove a live task. Its holder, if it runs, finds it gone.
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
-- KEYS[12] wake       ZSET    the marker that waiting consumers block on
-- KEYS[13] tick       ZSET    the marker that daemons block on
-- KEYS[14] limits     HASH    what is limited -> how
-- KEYS[15] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[16] tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  key        instead of the id, or ""
--
-- Returns 1; -2 when no live task has this id or key (nothing changed).
-- Lost reply: the second call answers -2.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, wake, tick, limits, gates = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local tracked = KEYS[16]
local now, id, key = ARGV[1], ARGV[2], ARGV[3]

-- @include _now
-- @include _record
-- @include _notice
-- @include _groups
-- @include _rules
-- @include _pace
-- @include _gate
-- @include _keep
-- @include _settle
-- @include _place
id = key ~= '' and redis.call('HGET', keys, key) or id
local task = read(redis.call('HGET', meta, id) or '')
if not task or redis.call('ZSCORE', dead, id) then
  return -2
end
leave(id, task)
redis.call('HDEL', meta, id)
redis.call('HDEL', payload, id)
if task.key ~= '' then
  redis.call('HDEL', keys, task.key)
end
admit()
return 1
