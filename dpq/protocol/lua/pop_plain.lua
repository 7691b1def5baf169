-- pop_plain: lease the best ready tasks, if there is nothing to decide. It is the short way of pop.
--
-- Keys: ready invisible meta conf stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  most       tasks at most, from 1 to 1000
-- ARGV[3]  visibility the lease, ms, at least 10 000: shorter ones are watched (notice)
-- ARGV[4]  max_bytes  payload bytes at most (the first task comes whatever its size); or left out: 4 MiB
--
-- Returns {lease end, id, record and payload, id, ...} as pop does. {-5}: the caller is to call pop, and nothing has
-- changed. This is the reply if no task is ready; if upkeep is due; if the queue is paused, has a limit or a trail, or
-- has another format; and if the best task has a group, has no short record (record), or was delivered before. If such
-- a task comes later, the reply ends before it.
-- Lost reply: as with pop.
local time, most, visibility = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local max_bytes = tonumber(ARGV[4] or '4194304')

-- Needs: now, undelivered
local settings = redis.call('HMGET', conf, 'next_event', 'token', 'format', 'paused_until', 'queue_rules',
  'queue_gate', 'shut_until', 'trail_max_events')
local soonest, last = tonumber(settings[1] or ''), tonumber(settings[2] or '')
if not (soonest and soonest > instant and soonest <= now + visibility)
  or settings[3] ~= '03' and settings[3] ~= '04'
  or settings[4] or settings[5] or settings[6] or settings[7] or settings[8] then
  return { -5 }
end
local token = math.floor(instant * 1000)
token = last and last > token and last < 9e15 and last or token -- as in pop
local reply, leases, size, left, n = { now + visibility }, {}, 0, nil, 0
local lease_end = string.format('%d', reply[1])
while n < 2 * most and not left and size <= max_bytes do
  local popped = redis.call('ZPOPMIN', ready, math.min(100, most - n / 2))
  if not popped[1] then
    break
  end
  local ids = {}
  for i = 1, #popped, 2 do
    ids[#ids + 1] = string.sub(popped[i], 17)
  end
  for i, raw in ipairs(redis.call('HMGET', meta, unpack(ids))) do
    local digits, group, at = string.match(raw or '', FRESH)
    size = at and size + #raw - at + 1 or size
    if left or group ~= '' or digits < LEAST_DIGITS or at > MOST_BYTES or size > max_bytes and n > 0 then
      left = left or {}
      left[#left + 1], left[#left + 2] = popped[2 * i], popped[2 * i - 1]
    else
      token = token + 1
      reply[n + 2], reply[n + 3] = ids[i], string.format('%d 0 1 0 - 0 ', token) .. raw
      leases[n + 1], leases[n + 2] = lease_end, ids[i]
      n = n + 2
    end
  end
end
if left then -- back to their old places
  redis.call('ZADD', ready, unpack(left))
end
if n == 0 then
  return { -5 }
end
-- Needs: times
for i = 3, n + 1, 2 do
  count_time(string.sub(reply[i], 29, 39), 1, 16)
end
store_times('w')
redis.call('HSET', conf, 'token', string.format('%d', token))
redis.call('HSET', meta, unpack(reply, 2))
redis.call('ZADD', invisible, unpack(leases))
return reply
