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
-- KEYS[11] wake       ZSET    the marker that waiting consumers block on
-- ARGV[1]  id
--
-- Returns 1; -2 when no live task has this id (nothing changed).
-- Lost reply: the second call answers -2.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local wake = KEYS[11]
local id = ARGV[1]

-- @include _record
-- @include _place
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
if admit() > 0 then
  redis.call('ZADD', wake, '0', 'w')
end
return 1
