-- bury: give a task up now.
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
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  reason     one line
--
-- Returns 1; 0 when this delivery was so settled before (nothing changed); -1 when its token is not
-- the live one, or another verb settled it (nothing changed).
-- Lost reply: safe to send again, the second answer is 0.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, stats, wake, tick, limits = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local gates, tracked = KEYS[16], KEYS[17]
local now, id, token, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local verb = 'b'

-- @include _now
-- @include _record
-- @include _fence
-- @include _notice
-- @include _groups
-- @include _rules
-- @include _pace
-- @include _gate
-- @include _keep
-- @include _settle
-- @include _place
-- @include _bury
leave(id, task)
task.delivery = verb
bury(id, task, reason)
admit()
return 1
