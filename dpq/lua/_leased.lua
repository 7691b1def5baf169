-- _leased: what pop has taken goes under a lease; and if work remains that may run now, or that a waiter who
-- leaves was to watch for, the next one is told.
-- Wants: bodies, metas, visibility, now, instant, soonest, settings, moved, at_last, waiter, meta, ready,
--        invisible, conf, stats, wake, reply; watch, notice (_notice). Fills reply.
local token = redis.pcall('HINCRBY', stats, 'popped', #bodies)
if not tonumber(token) or token < #bodies or token > 9e14 then -- damaged: above all before, surely
  token = now + #bodies
  redis.call('HSET', stats, 'popped', string.format('%.0f', token))
end
token = token - #bodies
local leases, lease_end = {}, string.format('%.0f', now + visibility)
for i, body in ipairs(bodies) do
  local id, raw, n = metas[2 * i - 1], string.format('%d ', token + i) .. metas[2 * i], #reply
  metas[2 * i], leases[2 * i - 1], leases[2 * i] = raw, lease_end, id
  reply[n + 1], reply[n + 2], reply[n + 3] = id, raw, body
end
redis.call('HSET', meta, unpack(metas))
redis.call('ZADD', invisible, unpack(leases))
if not soonest or soonest <= instant or now + visibility < soonest or visibility < 5000 then
  notice(visibility)
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
