-- pop_plain: lease the best ready tasks, if nothing decides but windows and the concurrency of groups. It is the short
-- way of pop.
--
-- Keys: ready invisible waiting groups closed meta conf stats wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  most       tasks at most, from 1 to 1000
-- ARGV[3]  visibility the lease, ms, at least 10 000: shorter ones are watched (notice)
-- ARGV[4]  max_bytes  payload bytes at most (the first task comes whatever its size); or left out: 4 MiB
--
-- Returns {lease end, id, record and payload, id, ...} as pop does. {-5}: the caller is to call pop, and nothing has
-- changed. This is the reply if no task may run; if upkeep is due; if the queue is paused, has turns, a bound,
-- another format, or a limit that is more than one even window; if its tasks have costs beside limits; and if the best
-- task has no short record (record), was delivered before, or its group has such a limit. If such a task comes later,
-- the reply ends before it.
-- Lost reply: as with pop.
local time, most, visibility, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

max_bytes = tonumber(max_bytes or '4194304')

-- Needs: now, undelivered, times
local settings = redis.call('HMGET', conf, 'next_event', 'token', 'format', 'paused_until', 'gated', 'queue_rules',
  'queue_gate', 'shut_until', 'room_wanted', 'heavy', 'fairness')
local soonest, last = tonumber(settings[1] or ''), tonumber(settings[2] or '')
if not (soonest and soonest > instant and soonest <= now + visibility)
  or settings[3] ~= '05' and settings[3] ~= '06' or settings[4] or settings[9]
  or (settings[11] or 'none') ~= 'none' or (tonumber(settings[8] or 0) or 0) > instant then
  return { -5 }
end
local limited = settings[5] or settings[6] or settings[7]
if limited then
  -- Needs: plain_limits
  limited = plain_limits(settings[6], settings[7], settings[10])
  if not limited then
    return { -5 }
  end
end
local one_by_one = limited or redis.call('EXISTS', groups) == 1
if one_by_one then
  if most > 16 then -- pop is quicker
    return { -5 }
  end
  -- Needs: heads
end
local token = math.floor(instant * 1000)
token = last and last > token and last < 9e15 and last or token -- as in pop
local reply, leases, size, left, n, emptied = { now + visibility }, {}, 0, nil, 0, 0
local lease_end = string.format('%d', reply[1])
while n < 2 * most and not left and size <= max_bytes and (n == 0 or not limited or queue_free()) do
  local popped = redis.call('ZPOPMIN', ready, one_by_one and '1' or math.min(100, most - n / 2))
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
    if left or not at or digits < LEAST_DIGITS or at - #group > MOST_BYTES or size > max_bytes and n > 0
      or group ~= '' and (not one_by_one or limited and not group_lets(group)) then
      left = left or {}
      left[#left + 1], left[#left + 2] = popped[2 * i], popped[2 * i - 1]
    else
      token = token + 1
      reply[n + 2], reply[n + 3] = ids[i], string.format('%d 0 1 0 - 0 ', token) .. raw
      leases[n + 1], leases[n + 2], n = lease_end, ids[i], n + 2
      if not (limited and charge_plain(group, ids[i])) and group ~= '' and not raise_heir(group) then
        emptied = emptied + 1
      end
    end
  end
end
if left then -- back to their old places
  redis.call('ZADD', ready, unpack(left))
end
if n == 0 then
  return { -5 }
end
for i = 3, n + 1, 2 do
  count_time(string.sub(reply[i], 29, 39), 1, 16)
end
store_times('w')
local text = limited and store_plain(emptied)
if settings[8] then
  redis.call('HDEL', conf, 'shut_until')
end
redis.call('HSET', conf, 'token', string.format('%d', token), unpack(text and { 'queue_gate', text } or {}))
redis.call('HSET', meta, unpack(reply, 2))
redis.call('ZADD', invisible, unpack(leases))
return reply
