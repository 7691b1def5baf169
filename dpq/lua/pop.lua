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
-- KEYS[13] wake       ZSET    the marker that waiting consumers block on
-- KEYS[14] tick       ZSET    the marker that daemons block on
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
local conf, stats, wake, tick = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local now, most, visibility, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local batch, woken = tonumber(ARGV[5]), ARGV[6]

-- @include _now
local settings = redis.call('HMGET', conf, 'paused_until', 'next_event')
local paused, soonest, moved = settings[1], tonumber(settings[2] or ''), 0
if paused and (paused == 'inf' or tonumber(paused) > now) then
  return { 0, paused == 'inf' and -1 or paused - now }
end
if soonest and soonest <= now then
  -- @include _record
  -- @include _place
  -- @include _bury
  -- @include _next
  -- @include _upkeep
  moved = upkeep(batch)
  if moved >= batch then
    return { -5 }
  end
  soonest = tonumber(redis.call('HGET', conf, 'next_event') or '')
end

-- By sixteen, which bounds the payloads in memory; but the heir of a group's head may be the next best.
local stride, crown = 16, nil
if redis.call('EXISTS', groups) == 1 then
  -- @include _place
  stride, crown = 1, succeed
end
local metas, bodies, rotten, bytes = {}, {}, {}, 0
while #bodies < most and #rotten < batch and bytes <= max_bytes do
  local popped = redis.call('ZPOPMIN', ready, math.min(stride, most - #bodies))
  if #popped == 0 then
    break
  end
  local ids = {}
  for i = 1, #popped, 2 do
    local member = popped[i]
    ids[#ids + 1] = string.sub(member, string.byte(member) == 49 and 17 or 20)
  end
  local raws, loads = redis.call('HMGET', meta, unpack(ids)), redis.call('HMGET', payload, unpack(ids))
  for i, id in ipairs(ids) do
    local raw, body = raws[i], loads[i]
    bytes = bytes + #(body or '')
    if bytes > max_bytes and #bodies > 0 then
      redis.call('ZADD', ready, popped[2 * i], popped[2 * i - 1])
    elseif raw then
      local attempts, deliveries, deferrals, rest, expires, group = string.match(raw,
        '^%d+ (%d+) (%d+) (%d+) %S (%d+ %d+ %d+ %S+ %d+ (%d+) %S+ %d+\t([^\t]*).*)$')
      if not attempts then
        rotten[#rotten + 1] = { id }
      elseif not body then
        rotten[#rotten + 1] = { id, raw, 'payload missing' }
      elseif expires ~= '0' and deliveries == '0' and tonumber(expires) <= now then
        rotten[#rotten + 1] = { id, raw, 'expired' }
      else
        local n = #metas
        metas[n + 1], metas[n + 2] = id, attempts .. ' ' .. deliveries + 1 .. ' ' .. deferrals .. ' - ' .. rest
        bodies[#bodies + 1] = body
      end
      if crown and group and group ~= '' then
        crown(group)
      end
    end
  end
end

local reply = { now + visibility }
if #bodies > 0 then
  local token = redis.call('HINCRBY', stats, 'popped', #bodies) - #bodies
  local leases, lease_end = {}, string.format('%.0f', now + visibility)
  for i, body in ipairs(bodies) do
    local id, raw, n = metas[2 * i - 1], string.format('%d ', token + i) .. metas[2 * i], #reply
    metas[2 * i], leases[2 * i - 1], leases[2 * i] = raw, lease_end, id
    reply[n + 1], reply[n + 2], reply[n + 3] = id, raw, body
  end
  redis.call('HSET', meta, unpack(metas))
  redis.call('ZADD', invisible, unpack(leases))
  if not soonest or now + visibility < soonest or visibility < 5000 then
    -- @include _notice
    notice(visibility)
  end
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
if (woken == '1' or moved > 0) and redis.call('EXISTS', ready) == 1
  or woken == '1' and #bodies > 0 and soonest and soonest < now + 5000 then
  redis.call('ZADD', wake, '0', 'w')
end
if #bodies > 0 then
  return reply
elseif #rotten > 0 then
  return { -5 }
end
-- @include _next
local event = next_event()
return { 0, event and math.max(event - now, 0) or -1 }
