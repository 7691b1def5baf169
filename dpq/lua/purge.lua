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
-- KEYS[11] wake       ZSET    the marker that waiting consumers block on
-- ARGV[1]  state      ready, delayed, invisible, waiting or dead
-- ARGV[2]  most       tasks at most
-- ARGV[3..]            ids: only these
--
-- Returns how many it removed; call again until it says 0. The holder of a running task finds it gone.
-- Lost reply: safe to send again; the second call removes the next ones.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local wake = KEYS[11]
local state, most, args = ARGV[1], tonumber(ARGV[2]), ARGV

-- @include _record
-- @include _place
-- @include _member
local set = ({ ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead })[state]
local members, removed = {}, 0
for i = 3, #args do
  members[#members + 1] = redis.call('ZSCORE', set, args[i]) and args[i] or nil
end
if #args < 3 then
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
if admit() > 0 then
  redis.call('ZADD', wake, '0', 'w')
end
return removed
