-- replay: dead tasks become ready, or due one after the other.
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
-- ARGV[2]  first      ms from now until the first is due
-- ARGV[3]  spacing    ms from each to the next, may have a fraction
-- ARGV[4..]            ids
--
-- Returns how many were dead and now live, with all their attempts before them.
-- Lost reply: safe to send again; ids that are dead no more are left alone.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, meta, dead, conf, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local wake, tick, limits, gates, tracked = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local now, first, spacing, args = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV

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
-- @include _back
local replayed = 0
for i = 4, #args do
  local id = args[i]
  local task = read(redis.call('HGET', meta, id) or '')
  if task and redis.call('ZREM', dead, id) == 1 then
    local ms = math.min(math.floor(first + spacing * replayed), 3.1536e11) -- as nothing is put more than 10 years away
    task.attempts, task.expires, task.reason, task.again = 0, 0, '', 0
    redis.call('HSET', meta, id, write(task))
    back(id, task, ms)
    replayed = replayed + 1
  end
end
if replayed > 0 then
  redis.pcall('HINCRBY', stats, 'replayed', replayed)
end
admit()
return replayed
