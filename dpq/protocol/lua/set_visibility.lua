-- set_visibility: nobody sees the task for a while; this delivery does not count as a failure.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  closed     ZSET    group -> opens, ms
-- KEYS[7]  meta       HASH    id -> record
-- KEYS[8]  dead       ZSET    id -> when, ms
-- KEYS[9]  conf       HASH    settings
-- KEYS[10] stats      HASH    running totals
-- KEYS[11] wake       ZSET    the marker that waiting consumers block on
-- KEYS[12] tick       ZSET    the marker that daemons block on
-- KEYS[13] limits     HASH    what is limited -> how
-- KEYS[14] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[15] tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  ms         from now until it is visible
--
-- Returns 1; -1 when the token is not the live one or the delivery is settled (nothing changed).
-- Lost reply: safe to send again; the time then counts from the second call, the deferral once.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, meta, dead, conf, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local wake, tick, limits, gates, tracked = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local now, id, token, ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local verb = ''

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
-- @include _back
leave(id, task)
if task.delivery == '-' or task.delivery == 'x' then -- the first deferral of this delivery
  task.delivery = task.delivery == '-' and 'd' or 'X'
  task.deferrals = task.deferrals + 1
  redis.call('HSET', meta, id, write(task))
  redis.pcall('HINCRBY', stats, 'deferred', 1)
end
-- @include _return
