-- purge: remove tasks of one state, or the named ones of the dead.
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
-- KEYS[12] wake       ZSET    the marker that waiting consumers block on
-- KEYS[13] tick       ZSET    the marker that daemons block on
-- KEYS[14] limits     HASH    what is limited -> how
-- KEYS[15] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[16] tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  state      ready, delayed, invisible, waiting or dead
-- ARGV[3]  most       tasks at most; 0 changes nothing
-- ARGV[4..]            ids: only these
--
-- Returns how many it removed; call again until it says 0. The holder of a running task finds it gone.
-- Lost reply: safe to send again; the second call removes the next ones.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, wake, tick, limits, gates = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local tracked = KEYS[16]
local now, state, most, args = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV

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
-- @include _member
local set = ({ ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead })[state]
local members, removed = {}, 0
for i = 4, #args do
  members[#members + 1] = redis.call('ZSCORE', set, args[i]) and args[i] or nil
end
if #args < 4 and most > 0 then
  members = redis.call('ZRANGE', set, 0, most - 1)
end
for _, member in ipairs(members) do
  local id = split(set, member)
  local task = read(redis.call('HGET', meta, id) or '')
  if task then
    leave(id, task)
    if task.key ~= '' then
      redis.call('HDEL', keys, task.key)
    end
  end
  redis.call('ZREM', set, member)
  redis.call('HDEL', meta, id)
  redis.call('HDEL', payload, id)
  removed = removed + 1
end
admit()
return removed
