-- pop: take the best ready tasks that may run now under a lease, after all upkeep that is due.
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
-- ARGV[2]  most       tasks at most, from 1 to 1000; or minus how many of the first to look at, and take none
-- ARGV[3]  visibility the lease, ms
-- ARGV[4]  max_bytes  payload bytes at most (the first task comes whatever its size)
-- ARGV[5]  batch      steps of upkeep at most
-- ARGV[6]  waiter     "" for one that does not wait, "-" before it waits, "0" after; or the moment, ms,
--                     with three digits, that this one has been told to watch
-- ARGV[7]  partitions of the queue, as the client knows it; 0 before it does
--
-- Returns {lease end, id, record, payload, id, ...}; or {0, us, now} when there is nothing to do: the
-- microseconds until that may change, or -1 when nothing is to come, or another waiter watches that
-- moment; and the time in microseconds; or {-5} when upkeep is not done yet: call again at once. Of a look,
-- {score, order and id, ...} of the first in ready, unless the queue lets none of them run. {-7, ...} to a client
-- that counts partitions wrong (_same), {-8, ...} to one that knows another format (_known). {-9} when settings or
-- limits are lost: nothing runs until somebody has restored them (configure).
-- Lost reply: the tasks stay leased to nobody until their leases run out, which counts as an attempt; what
-- they took of a limit is spent.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, stats, wake, tick = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local limits, gates, tracked = KEYS[15], KEYS[16], KEYS[17]
local now, most, visibility, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local batch, waiter, partitions = tonumber(ARGV[5]), ARGV[6], ARGV[7]

-- @include _now
-- @include _notice
local settings = redis.call('HMGET', conf, 'paused_until', 'next_event', 'gated', 'queue_rules',
  'queue_gate', 'shut_until', 'token', 'partitions', 'format', 'limited')
local paused, soonest, moved = settings[1], tonumber(settings[2] or ''), 0
local rules, stored, format = settings[4], settings[8], settings[9]
local noted = settings[10] and string.match(settings[10], '^q?%d+$') -- as limits_noted (_noted)
  or settings[3] and string.match(settings[3], '^(q?%d+)=$')
-- @include _known
-- @include _same
if not format and redis.call('EXISTS', meta) == 1 or noted and not rules and string.byte(noted) == 113 then
  return { -9 } -- nobody knows what may run
end
if paused and (paused == 'inf' or (tonumber(paused) or 0) > now) then
  local event, at, least = tonumber(paused ~= 'inf' and paused or ''), nil, nil
  -- @include _go_on
  -- @include _rest
end
if soonest ~= soonest then -- NaN: nobody knows
  soonest = 0
end
if soonest and soonest <= instant then
  -- @include _record
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
  -- @include _go_on
  moved = upkeep(batch, true)
  if moved >= batch then
    return { -5 }
  end
end

-- By sixteen, which bounds the payloads in memory; but the heir of a group's head may be the next best.
local there = redis.call('EXISTS', groups, groups, groups, limits, gates) -- in one call, also when `gated` is lost
local grouped = there > 2
if noted and grouped and redis.call('HLEN', limits) < tonumber(string.match(noted, '%d+')) then
  return { -9 }
end
local stride, judge, crown, settle_all, at_last = grouped and 1 or 16, nil, nil, nil, nil
local function limit()
  -- @include _rules
  -- @include _pace
  -- @include _gate
  -- @include _keep
  queue_texts, lacking = moved == 0 and { settings[4], settings[5] } or nil, {} -- nothing is lost, as said above
  -- @include _judge
  if grouped then
    -- @include _groups
    -- @include _settle
    -- @include _prune
    -- @include _judge_groups
  end
end
if settings[4] or settings[5] then
  limit()
elseif grouped then
  -- @include _groups
  crown = succeed
  if settings[3] or noted or there % 3 > 0 then
    -- @include _limited
  end
end
if most < 0 then
  -- @include _go_on
  local first = at_last and at_last() and {} or redis.call('ZRANGE', ready, '0', -most - 1, 'WITHSCORES')
  for i = 1, #first, 2 do
    first[i], first[i + 1] = first[i + 1], first[i]
  end
  if #first > 0 then
    return first
  end
end
-- Tokens are microseconds, but each is larger than the last one, whatever the clock says: so they grow on, too,
-- where a failover, or a restart without the newest data, has taken back what this queue has counted.
local token, last = math.floor(instant * 1000), tonumber(settings[7] or '')
if last and last > token and last < 9e15 then -- more is not exact: damaged
  token = last
end
local metas, bodies, rotten, bytes, passed, known_priority, known_aging = {}, {}, {}, 0, 0, '0', '0'
while #bodies < most and passed < batch and bytes <= max_bytes do
  local popped = redis.call('ZPOPMIN', ready, math.min(stride, most - #bodies))
  if #popped == 0 then
    break
  end
  -- @include _take
end

if settle_all then
  settle_all()
end
local reply = { now + visibility }
if #bodies > 0 then
  -- @include _leased
end
if #rotten > 0 then
  -- @include _record
  -- @include _bury
  for _, task in ipairs(rotten) do
    local known = task[2] and read(task[2])
    if known then
      bury(task[1], known, task[3])
    else
      rescue(task[1])
    end
  end
end
if #bodies > 0 then
  return reply
elseif passed > 0 then
  return { -5 }
end
-- @include _next
local event, at, least = next_event(), nil, nil
if event and event <= instant and (not soonest or soonest > instant) then -- `next_event` was lost
  redis.call('HSET', conf, 'next_event', '0')
  return { -5 }
end
if at_last then
  at, least = at_last()
end
-- @include _rest
