-- _leased: what pop has taken goes under a lease; and if work remains that may run now, or that a waiter who
-- leaves was to watch for, the next one is told.
-- Wants: bodies, metas, token, visibility, now, instant, soonest, settings, moved, at_last, waiter, meta, ready,
--        invisible, conf, stats, wake, reply; watch, notice (_notice). Fills reply.
redis.call('HSET', conf, 'token', string.format('%.0f', token + #bodies))
redis.pcall('HINCRBY', stats, 'popped', #bodies)
local leases, lease_end, least = {}, string.format('%.0f', now + visibility), tonumber(visibility)
for i, body in ipairs(bodies) do
  local id, n = metas[2 * i - 1], 3 * i
  leases[2 * i - 1], leases[2 * i] = lease_end, id
  if string.find(metas[2 * i], '\31', 1, true) then -- its options: the visibility, 0 for none, and the time limit
    local own = tonumber(string.match(metas[2 * i], '\31(%d+) %d+') or 0)
    if own > 0 and own <= 315360000000 then
      leases[2 * i - 1], least = string.format('%.0f', now + own), math.min(least, own)
    end
  end
  reply[n - 1], reply[n], reply[n + 1] = id, metas[2 * i], body
end
redis.call('HSET', meta, unpack(metas))
redis.call('ZADD', invisible, unpack(leases))
if not soonest or soonest <= instant or now + least < soonest or least < 5000 then
  notice(least)
end
if settings[6] then
  redis.call('HDEL', conf, 'shut_until')
end
local mine = tonumber(waiter)
if mine or moved > 0 then
  local left = redis.call('EXISTS', ready) == 1
  if mine and mine > now and mine == tonumber(redis.call('HGET', conf, 'watched') or '') then
    redis.call('HDEL', conf, 'watched')
  end
  local at = left and at_last and at_last()
  local moment = at or mine and tonumber(redis.call('HGET', conf, 'next_event') or '')
  if left and not at then
    redis.call('ZADD', wake, '0', 'w')
  elseif mine and moment then
    watch(moment)
  end
end
