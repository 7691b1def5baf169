-- absent: is there nothing at all of a queue?
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
-- KEYS[18] workers    HASH    worker -> when it was seen, and what it said
--
-- Returns 1 when there is no key of it (of its first partition), else 0.
-- Lost reply: safe to send again.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, stats, wake, tick, limits = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local gates, tracked, workers = KEYS[16], KEYS[17], KEYS[18]

local there = redis.call('EXISTS', conf, meta, payload, stats, ready, delayed, invisible, waiting, groups, closed)
  + redis.call('EXISTS', dead, keys, wake, tick, limits, gates, tracked, workers)
return there == 0 and 1 or 0
