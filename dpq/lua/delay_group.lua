-- delay_group: close a group for a time from now, or open it.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  closed     ZSET    group -> opens, ms
-- KEYS[7]  dead       ZSET    id -> when, ms
-- KEYS[8]  conf       HASH    settings
-- KEYS[9]  wake       ZSET    the marker that waiting consumers block on
-- KEYS[10] tick       ZSET    the marker that daemons block on
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  group
-- ARGV[3]  ms         from now; 0 opens
--
-- Returns 1. However many tasks wait in the group, one entry moves.
-- Lost reply: safe to send again; the time then counts from the second call.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, dead, conf, wake, tick = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local now, group, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- @include _now
-- @include _place
-- @include _notice
if ms > 0 then
  shut(group)
  redis.call('ZADD', closed, now + ms, group)
  notice(ms)
elseif redis.call('ZREM', closed, group) == 1 then
  succeed(group)
end
if admit() > 0 then
  redis.call('ZADD', wake, '0', 'w')
end
return 1
