-- lease: lease the tasks that pop has taken.
-- Needs: now, times, notes
-- Gives: lease(taken, visibility, shut_until): the reply of pop, and the shortest lease, ms. `taken` is the table of
--        take; `shut_until` is the setting, which is over now.

-- If this is a task's first delivery, returns when the task was first due, ms as text; and the base of that text.
local function first_due(record)
  if string.sub(record, 17, 28) == ' 0 1 0 - 0 q' then -- a token of 16 digits, and a short record
    return string.sub(record, 29, 39), 16
  end
  local enqueued, wait = string.match(record, '^%d+ 0 1 %d+ %- 0 f(%d+) %d+ %d+ %S+ %S+ (%d+)')
  return enqueued and string.format('%.0f', enqueued + wait)
end

local function lease(taken, visibility, shut_until)
  local metas, long = taken.metas, taken.long
  redis.call('HSET', conf, 'token', string.format('%d', taken.token))
  if shut_until then
    redis.call('HDEL', conf, 'shut_until')
  end
  local again = #metas / 2
  local reply, leases, lease_end, least = { now + visibility }, {}, string.format('%d', now + visibility), visibility
  for i = 1, #metas, 2 do
    local id, record = metas[i], metas[i + 1]
    leases[i], leases[i + 1] = lease_end, id
    local begun, base = first_due(record)
    if begun then
      count_time(begun, 1, base)
      again = again - 1
    end
    if not base and string.find(record, OPTIONS, 1, true) then -- a short record has none
      local own = tonumber(string.match(record, '^[^\n]*\31(%d+) %d+') or 0) -- 0: no lease of its own
      if own > 0 and own <= 315360000000 then
        leases[i], least = string.format('%.0f', now + own), math.min(least, own)
      end
    end
    reply[i + 1], reply[i + 2] = id, long[id] and record .. '\n' .. long[id] or record
  end
  store_times('w')
  if again > 0 then
    redis.pcall('HINCRBY', stats, 'popped', again)
  end
  redis.call('HSET', meta, unpack(metas))
  redis.call('ZADD', invisible, unpack(leases))
  return reply, least
end
