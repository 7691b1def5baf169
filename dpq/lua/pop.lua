-- pop: take the best ready tasks under a lease, after all upkeep that is due.
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
-- KEYS[13] seq        STRING  the last place or token given
-- KEYS[14] wake       ZSET    the marker that waiting consumers block on
-- KEYS[15] tick       ZSET    the marker that daemons block on
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  most       tasks at most, from 1 to 1000
-- ARGV[3]  visibility the lease, ms
-- ARGV[4]  max_bytes  payload bytes at most (the first task comes whatever its size)
-- ARGV[5]  batch      steps of upkeep at most
-- ARGV[6]  woken      "1" when this pop follows a wait: then it wakes the next consumer if work remains
--
-- Returns {lease end, id, record, payload, id, ...}; or {0, ms until the next event or -1} when there is
-- nothing to do; or {-5} when upkeep is not done yet: call again at once.
-- Lost reply: the tasks stay leased to nobody until their leases run out, which counts as an attempt.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, stats, seq, wake, tick = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local now, most, visibility, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local batch, woken = tonumber(ARGV[5]), ARGV[6]

-- @include _now
-- @include _record
-- @include _place
-- @include _bury
-- @include _upkeep
-- @include _next
-- @include _notice
local paused = redis.call('HGET', conf, 'paused_until')
if paused and (paused == 'inf' or tonumber(paused) > now) then
  return { 0, paused == 'inf' and -1 or paused - now }
end
local moved = upkeep(batch)
if moved >= batch then
  return { -5 }
end

local lease_end, bytes, buried, token = now + visibility, 0, 0, nil
local reply, leases, metas = { lease_end }, {}, {}
local stride = redis.call('EXISTS', groups) == 1 and 1 or most -- a head's heir may be the next best
while #leases < 2 * most and buried < batch and bytes <= max_bytes do
  local popped = redis.call('ZPOPMIN', ready, math.min(stride, most - #leases / 2))
  if #popped == 0 then
    break
  end
  token = token or redis.call('INCRBY', seq, most) - most
  for i = 1, #popped, 2 do
    local member = popped[i]
    local id = string.sub(member, string.byte(member) == 49 and 17 or 20)
    local raw, body = redis.call('HGET', meta, id), redis.call('HGET', payload, id)
    local attempts, deliveries, deferrals, rest, expires, group = string.match(raw or '',
      '^%d+ (%d+) (%d+) (%d+) %S (%d+ %d+ %d+ %S+ %d+ (%d+) %d+\t([^\t]*).*)$')
    bytes = bytes + #(body or '')
    if bytes > max_bytes and #leases > 0 then
      redis.call('ZADD', ready, popped[i + 1], member)
    elseif raw then
      if not body then
        bury(id, read(raw), 'payload missing')
        buried = buried + 1
      elseif expires ~= '0' and deliveries == '0' and tonumber(expires) <= now then
        bury(id, read(raw), 'expired')
        buried = buried + 1
      else
        token = token + 1
        raw = string.format('%.0f ', token) .. attempts .. ' ' .. deliveries + 1 .. ' ' .. deferrals .. ' - ' .. rest
        metas[#metas + 1], metas[#metas + 2] = id, raw
        leases[#leases + 1], leases[#leases + 2] = lease_end, id
        reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, raw, body
      end
      if group ~= '' then
        succeed(group)
      end
    end
  end
end

if #leases > 0 then
  redis.call('HSET', meta, unpack(metas))
  redis.call('ZADD', invisible, unpack(leases))
  redis.call('HINCRBY', stats, 'popped', #leases / 2)
  notice(visibility)
end
if (woken == '1' or moved > 0) and redis.call('EXISTS', ready) == 1 then
  redis.call('ZADD', wake, 0, 'w')
elseif woken == '1' and #leases > 0 then
  notice(next_event())
end
if #leases > 0 then
  return reply
elseif buried > 0 then
  return { -5 }
end
return { 0, next_event() }
