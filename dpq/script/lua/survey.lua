-- survey: read what a page about a queue shows beside its counts, and what keeps its tasks from running. It changes
-- nothing. Its cost does not depend on how many tasks are stored.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf limits gates tracked stats events
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns {values, held, states, holders, events, server}, six lists of texts:
-- * now, ms; until when the queue is paused, "", "inf" or ms; how many groups are closed; when the first of them opens,
--   ms, or ""; how many limits are set, without the queue's; how many groups have a ready task; when the next delayed
--   task is due, ms, or ""; order; fairness; storage format; how many fields of settings, limits and totals
--   are stored; how many leases last; how many leases have ended, but no upkeep has seen that; when a consumer has
--   asked last, ms, or ""; id and token of the oldest of 100 leases, or ""; reason and last error of the first dead
--   letter; max_tasks and max_waiting, or ""; how many live tasks are stored.
-- * The queue as "", and the closed groups with the most due tasks; behind each, how many of its tasks are due. Empty
--   if nothing is limited or closed.
-- * A JSON object for each of these, as view returns it.
-- * Four for each: the id and the token of the lease that has been held longest, how many permits have a lease, and
--   when the first of these ends, ms.
-- * Four for the newest event of the pause, and for the newest 429 and the newest closing by hand of each of these:
--   kind, group, when (ms), detail.
-- * The names and values of fields of INFO that say if the server takes changes; none if the user may not read them.
-- Lost reply: safe to send again.

-- Needs: now, past, holder
local names = { 'paused_until', 'order', 'fairness', 'format', 'token', 'asked', 'queue_rules',
  'queue_gate', 'gated', 'max_tasks', 'max_waiting' }
local paused, sorting, turns_kind, format, token, asked, rules_there, gate_there, gated, most, most_waiting =
  unpack(redis.call('HMGET', conf, unpack(names)))
local is_paused = paused == 'inf' or (tonumber(paused or '') or 0) > now

local function whole(count)
  return string.format('%.0f', count)
end

local function first_death()
  local raw = redis.call('HGET', meta, redis.call('ZRANGE', dead, '0', '0')[1] or '') or ''
  return string.match(raw, '^[^\t\n]*\t[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t([^\t\n\23-\31]*)')
end

local ended_leases, closings_over = past(invisible), past(closed)
local oldest, oldest_token = oldest_of(redis.call('ZRANGE', invisible, ended_leases, ended_leases + 99))
local lasting, reason, fault = redis.call('ZCARD', closed) - closings_over, first_death()
local popped = math.floor((tonumber(token or '') or 0) / 1000)
local values = { stamp, is_paused and paused or '', whole(lasting), '', whole(redis.call('HLEN', limits)),
  whole(redis.call('HLEN', groups)), redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2] or '', sorting or 'fifo',
  turns_kind or 'none', format or '',
  whole(redis.call('HLEN', conf) + redis.call('HLEN', limits) + redis.call('HLEN', stats)),
  whole(redis.call('ZCARD', invisible) - ended_leases), whole(ended_leases),
  whole(math.max(popped, tonumber(asked or '') or 0)), oldest, oldest_token, reason or '', fault or '',
  most or '', most_waiting or '', whole(redis.call('HLEN', meta) - redis.call('ZCARD', dead)) }
local held, states, holders, found = {}, {}, {}, {}
if lasting > 0 then
  values[4] = redis.call('ZRANGE', closed, closings_over, closings_over, 'WITHSCORES')[2]
end
if lasting > 0 or rules_there or gate_there or gated then
  -- Needs: held_back, view_of
  local scopes, due = held_back(closings_over)
  table.insert(scopes, 1, '')
  due[''] = redis.call('ZCARD', waiting) + redis.call('ZCARD', ready) + past(delayed) + ended_leases
  states = view_of(scopes)
  for i, scope in ipairs(scopes) do
    held[2 * i - 1], held[2 * i] = scope, whole(due[scope])
    for _, text in ipairs(holder_of(scope)) do
      holders[#holders + 1] = text
    end
  end
end
local known = { paused = is_paused or nil }
for n = 1, #held, 2 do
  known['rate_limited\t' .. held[n]], known['closed\t' .. held[n]] = true, true
end
local last = next(known) and redis.pcall('XREVRANGE', events, '+', '-', 'COUNT', '200') or {}
for _, event in ipairs(last) do -- none if the user may not read them
  local fields = event[2]
  local key = fields[2] == 'paused' and 'paused' or (fields[2] or '') .. '\t' .. (fields[4] or '')
  if known[key] and fields[12] then
    known[key] = nil
    for _, n in ipairs({ 2, 4, 12, 10 }) do
      found[#found + 1] = fields[n]
    end
  end
end
local server = {}
for _, section in ipairs({ 'memory', 'persistence', 'replication' }) do
  local info = redis.pcall('INFO', section)
  for _, field in ipairs(type(info) == 'string' and { 'used_memory', 'maxmemory', 'maxmemory_policy', 'role',
    'rdb_last_bgsave_status', 'aof_last_write_status', 'slave_read_only' } or {}) do
    local value = string.match(info, '\n' .. field .. ':([^\r\n]*)')
    if value then
      server[#server + 1], server[#server + 2] = field, value
    end
  end
end
return { values, held, states, holders, found, server }
