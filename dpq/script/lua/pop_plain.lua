-- pop_plain: lease the best ready tasks, if nothing decides but windows and the concurrency of groups. It is the short
-- way of pop.
--
-- Keys: ready invisible waiting groups closed meta conf stats wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  most       number: tasks at most, from 1 to 1000
-- ARGV[3]  visibility number: the lease, ms, at least 10 000: shorter ones are watched (notice)
-- ARGV[4]  max_bytes  payload bytes at most (the first task comes whatever its size); or left out: 4 MiB
--
-- Returns {lease end, id, record and payload, id, ...} as pop does. {-5}: the caller is to call pop, and nothing has
-- changed. This is the reply if no task may run; if upkeep is due; if the queue is paused, has turns, a bound, another
-- format, or a limit that is more than one window; and if the best task has no short record (record), was delivered
-- before, or its group has such a limit, or one beside costs. If such a task comes later, the reply ends before it.
-- Lost reply: as with pop.

-- Needs: now, layout, times
local settings = redis.call('HMGET', conf, 'next_event', 'token', 'format', 'paused_until', 'gated', 'queue_rules',
  'queue_gate', 'shut_until', 'room_wanted', 'heavy', 'fairness')
local soonest, last = tonumber(settings[1] or ''), tonumber(settings[2] or '')
if not (soonest and soonest > instant and soonest <= now + visibility)
  or settings[3] ~= '05' or settings[4] or settings[9]
  or (settings[11] or 'none') ~= 'none' or settings[8] and (tonumber(settings[8]) or 0) > instant then
  return { -5 }
end
local limited, grouped = settings[5] or settings[6] or settings[7], redis.call('EXISTS', groups) == 1
if most > 16 and (limited or grouped) then -- pop is quicker
  return { -5 }
end
if limited then
  -- Needs: plain_limits
  if not plain_limits(settings[6], settings[7], settings[10]) then
    return { -5 }
  end
end
if grouped then
  -- Needs: heads
end
local token = math.floor(instant * 1000)
token = last and last > token and last < 9e15 and last or token -- as in pop
local reply, leases, size, left, n, emptied = { now + visibility }, {}, 0, nil, 0, 0
local room, lease_end = tonumber(max_bytes or 4194304), string.format('%d', reply[1])
while n < 2 * most and not left and size <= room and (n == 0 or not limited or queue_free()) do
  local popped = redis.call('ZPOPMIN', ready, (limited or grouped or most == 1) and '1' or math.min(100, most - n / 2))
  if not popped[1] then
    break
  end
  local ids = {}
  for i = 1, #popped, 2 do
    ids[(i + 1) / 2] = string.sub(popped[i], 17)
  end
  local raws = ids[2] and redis.call('HMGET', meta, unpack(ids)) or { redis.call('HGET', meta, ids[1]) }
  for i, raw in ipairs(raws) do
    local digits, group, at = string.match(raw or '', FRESH)
    size = at and size + #raw - at + 1 or size
    if left or not at or digits < LEAST_DIGITS or at - #group > MOST_BYTES or size > room and n > 0
      or group ~= '' and not grouped or limited and group ~= '' and not group_lets(group) then
      left = left or {}
      left[#left + 1], left[#left + 2] = popped[2 * i], popped[2 * i - 1]
    else
      token = token + 1
      reply[n + 2], reply[n + 3] = ids[i], string.format('%d 0 1 0 - 0 ', token) .. raw
      leases[n + 1], leases[n + 2], n = lease_end, ids[i], n + 2
      count_time(string.sub(raw, 2, 12), 1, 16)
      local closes = limited and charge_plain(group, ids[i], token)
      if group ~= '' and not closes and not raise_heir(group) then
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
store_times('w')
if settings[8] then
  redis.call('HDEL', conf, 'shut_until')
end
local text, opens
if limited then
  text, opens = store_plain()
end
if opens then
  -- Needs: notice
  notice(opens - now)
end
if limited and now % 64 == 0 then
  -- Needs: hash_table
  as_table(gates, true)
end
if limited and emptied > 0 then
  -- Needs: prune
  drop_ended(2 * emptied)
end
if text then
  redis.call('HSET', conf, 'token', string.format('%d', token), 'queue_gate', text)
else
  redis.call('HSET', conf, 'token', string.format('%d', token))
end
redis.call('HSET', meta, unpack(reply, 2))
redis.call('ZADD', invisible, unpack(leases))
return reply
