-- lease: lease the tasks that pop has taken.
-- Keys: invisible meta conf stats
-- Needs: now
-- Gives: lease(taken, visibility), for what take has taken: the reply of pop, and the shortest lease, ms.
local function lease(taken, visibility)
  local metas, bodies = taken.metas, taken.bodies
  redis.call('HSET', conf, 'token', string.format('%.0f', taken.token + #bodies))
  redis.pcall('HINCRBY', stats, 'popped', #bodies)
  local reply, leases, lease_end, least = { now + visibility }, {}, string.format('%.0f', now + visibility), visibility
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
  return reply, least
end
