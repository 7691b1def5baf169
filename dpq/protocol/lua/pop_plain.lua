-- pop_plain: lease the best ready tasks, if there is nothing to decide: the short way of pop.
--
-- Keys: ready invisible groups meta conf stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  most       tasks at most, from 1 to 1000
-- ARGV[3]  visibility the lease, ms, at least 10 000: shorter ones are watched (notice)
-- ARGV[4]  max_bytes  payload bytes at most (the first task comes whatever its size)
-- ARGV[5]  partitions of the queue, as the client knows it; 0 before it does
--
-- Returns {lease end, id, record and payload, id, ...} as pop does; {-5}: nothing has changed, and pop is to be asked:
-- no task is ready, upkeep is due, the queue is paused, has groups, limits or a trail, or the best task is not one
-- that was pushed with a short record (record) and never delivered. Behind the tasks of a reply there may be such a
-- task, too.
-- Lost reply: as with pop.
local time, most, visibility, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local partitions = ARGV[5]

-- Needs: now
local settings = redis.call('HMGET', conf, 'next_event', 'token', 'format', 'partitions', 'paused_until', 'gated',
  'queue_rules', 'queue_gate', 'shut_until', 'limited', 'trail_max_events')
local soonest, last = tonumber(settings[1] or ''), tonumber(settings[2] or '')
if not (soonest and soonest > instant and soonest <= now + visibility) or settings[3] ~= '4' or settings[5]
  or settings[6] or settings[7] or settings[8] or settings[9] or settings[10] or settings[11]
  or partitions ~= '0' and (settings[4] or '1') ~= partitions or redis.call('EXISTS', groups) == 1 then
  return { -5 }
end
local token = math.floor(instant * 1000)
token = last and last > token and last < 9e15 and last or token -- as pop
local reply, metas, leases, size = { now + visibility }, {}, {}, 0
local lease_end, n, odd = string.format('%d', reply[1]), 0, false
while n < 2 * most and not odd and size <= max_bytes do
  local popped = redis.call('ZPOPMIN', ready, math.min(16, most - n / 2))
  if not popped[1] then
    break
  end
  local ids = {}
  for i = 1, #popped, 2 do
    ids[#ids + 1] = string.sub(popped[i], 17)
  end
  for i, raw in ipairs(redis.call('HMGET', meta, unpack(ids))) do
    local digits, group, at = string.match(raw or '', '^q%d+() %-?%d+\t([^\t\n]*)\n()')
    odd = odd or not at or digits < 30 or at > 402 or group ~= '' or string.byte(popped[2 * i - 1]) ~= 49
    size = size + #(raw or '') - (at or 0) + 1
    if odd or size > max_bytes and n > 0 then
      odd = true
      redis.call('ZADD', ready, popped[2 * i], popped[2 * i - 1]) -- where it was
    else
      token = token + 1
      raw = string.format('%d 0 1 0 - 0 ', token) .. raw
      reply[n + 2], reply[n + 3] = ids[i], raw
      metas[n + 1], metas[n + 2] = ids[i], raw
      leases[n + 1], leases[n + 2] = lease_end, ids[i]
      n = n + 2
    end
  end
end
if n == 0 then
  return { -5 }
end
-- Needs: times
for i = 3, n + 1, 2 do
  count_time(string.sub(reply[i], 29, 41), 1)
end
store_times('w')
redis.call('HSET', conf, 'token', string.format('%d', token))
redis.call('HSET', meta, unpack(metas))
redis.call('ZADD', invisible, unpack(leases))
return reply
