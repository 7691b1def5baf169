-- update: change a live task in place. Of a running one only the priority can change.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  closed     ZSET    group -> opens, ms
-- KEYS[7]  meta       HASH    id -> record
-- KEYS[8]  dead       ZSET    id -> when, ms
-- KEYS[9]  keys       HASH    unique key -> id
-- KEYS[10] conf       HASH    settings
-- KEYS[11] wake       ZSET    the marker that waiting consumers block on
-- KEYS[12] tick       ZSET    the marker that daemons block on
-- KEYS[13] limits     HASH    what is limited -> how
-- KEYS[14] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[15] tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  priority   as text, or "" to keep it
-- ARGV[4]  residual   what the double of the priority lost
-- ARGV[5]  wait       ms from now until it is ready, or "" to keep that; the times of `every` then count from there
-- ARGV[6]  key        instead of the id, or ""
-- ARGV[7]  cost       units of every limit, or "" to keep that; of a running task for its next run
--
-- Returns 1; -2 when no live task has this id or key, -6 when a delay was asked of a running task (nothing
-- changed).
-- Lost reply: safe to send again; a delay then counts from the second call.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, meta, dead, keys, conf = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local wake, tick, limits, gates, tracked = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local now, id, priority, residual, wait = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local key, cost = ARGV[6], ARGV[7]

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
-- @include _revise
-- @include _begin
id = key ~= '' and redis.call('HGET', keys, key) or id
local task = read(redis.call('HGET', meta, id) or '')
if not task or redis.call('ZSCORE', dead, id) then
  return -2
elseif wait ~= '' and redis.call('ZSCORE', invisible, id) then
  return -6
end
local kind, expires_in, period = string.match(wait ~= '' and task.schedule or '', '^\t(%l) (%d+) %d+ (.*)$')
-- @include _go_on
if kind then
  local due = string.format('%.0f', now + wait)
  task.schedule, kind, task.expires = begin(table.concat({ kind, expires_in, due, period }, ' '), wait)
end
if cost ~= '' then
  task.cost = cost
  if cost ~= '1' then
    redis.call('HSET', conf, 'heavy', '1')
  end
end
revise(id, task, priority ~= '' and priority, residual, wait ~= '' and wait)
admit()
return 1
