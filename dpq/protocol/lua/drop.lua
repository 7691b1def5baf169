-- drop: remove the whole queue: its tasks, settings and totals.
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
-- Returns how many keys there were.
-- Lost reply: safe to send again.
local all = KEYS

return redis.call('UNLINK', unpack(all))
