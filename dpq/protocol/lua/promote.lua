-- promote: one bounded step of upkeep: what is due becomes ready, what is over the caps of the dead
-- letters goes.
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
-- ARGV[2]  batch      steps at most
-- ARGV[3]  partitions of the queue, as the client knows it; 0 before it does
--
-- Returns {moved, ms until the next event or -1}; call again while moved reaches batch. {-7, ...} to a client that
-- counts partitions wrong (_same), {-8, ...} to one that knows another format (_known).
-- Lost reply: safe to send again; the second call moves what is due then.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, stats, wake, tick, limits = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local gates, tracked = KEYS[16], KEYS[17]
local now, batch, partitions = ARGV[1], tonumber(ARGV[2]), ARGV[3]

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
-- @include _bury
-- @include _next
-- @include _prune
-- @include _upkeep
local format, stored = unpack(redis.call('HMGET', conf, 'format', 'partitions'))
-- @include _known
-- @include _same
-- @include _go_on
local moved = upkeep(batch)
if redis.call('EXISTS', gates) == 1 then
  prune(20)
end
moved = math.max(moved, trim(batch))
local event = next_event()
return { moved, event and math.max(math.ceil(event - now), 0) or -1 }
