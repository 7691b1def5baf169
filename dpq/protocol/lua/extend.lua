-- extend: leases now end later, or earlier. A delivery whose lease ran out takes it again as long
-- as nobody else has popped the task.
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
-- ARGV[2..]            a lease: id, token, ms from now, ...
--
-- Returns for each the new lease end, ms; or -1 when the token is not the live one or the delivery is
-- settled (nothing changed).
-- Lost reply: safe to send again, the second answer stands.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, meta, dead, conf, wake = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local tick, limits, gates, tracked = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local now, args = ARGV[1], ARGV
local verb = ''

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
local function extend(id, token, ms)
  -- @include _fence
  if not redis.call('ZSCORE', invisible, id) then
    leave(id, task)
    if task.group ~= '' and gate_of(task.group).rules.concurrency > 0 then -- it counts again
      redis.call('ZADD', tracked, '0', task.group .. '\t' .. id)
    end
  end
  redis.call('ZADD', invisible, now + ms, id)
  notice(ms)
  return now + ms
end

-- @include _go_on
local ends = {}
for i = 2, #args, 3 do
  ends[#ends + 1] = extend(args[i], args[i + 1], tonumber(args[i + 2]))
end
admit()
return ends
