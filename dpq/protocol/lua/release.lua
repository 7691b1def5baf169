-- release: give a task back, not counted; it keeps its place among equals.
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
-- KEYS[10] wake       ZSET    the marker that waiting consumers block on
-- KEYS[11] tick       ZSET    the marker that daemons block on
-- KEYS[12] limits     HASH    what is limited -> how
-- KEYS[13] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[14] tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  ms         from now until it is ready
-- ARGV[5]  priority   as text, or "" to keep it
-- ARGV[6]  residual   what the double of the priority lost
--
-- Returns 1; 0 when this delivery was so settled before (nothing changed); -1 when its token is not
-- the live one, or another verb settled it (nothing changed).
-- Lost reply: safe to send again, the second answer is 0.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, meta, dead, conf, wake = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local tick, limits, gates, tracked = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local now, id, token, ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local priority, residual = ARGV[5], ARGV[6]
local verb = 'r'

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
task.delivery = verb
if priority ~= '' then
  task.priority, task.order = priority, residual .. string.sub(task.order, -15)
end
redis.call('HSET', meta, id, write(task))
-- @include _return
