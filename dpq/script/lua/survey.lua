-- survey: read what a page about a queue shows beside its counts, and what keeps its tasks from running. It changes
-- nothing. Its cost does not depend on how many tasks are stored.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf limits gates tracked stats events
--       batches
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns {values, held, states, holders, events, server}, six lists of texts:
-- * The values of dpq/explain/survey.py, in the order of its fields; an empty text for none.
-- * The queue as "", and the closed groups with the most due tasks; behind each, how many of its tasks are due. Empty
--   if nothing is limited or closed.
-- * A JSON object for each of these, as view returns it.
-- * Four for each: the id and the token of the lease that has been held longest, how many permits have a lease, and
--   when the first of these ends, ms.
-- * Four for the newest event of the pause, and for the newest 429 and the newest closing by hand of each of these:
--   kind, group, when (ms), detail.
-- * The names and values of fields of INFO that say if the server takes changes and keeps them, and, if no consumer has
--   ever asked, which databases have keys; none if the user may not read them.
-- Lost reply: safe to send again.

-- Needs: now, moments, holder, warned
local TOLD = { used_memory = 1, maxmemory = 1, maxmemory_policy = 1, role = 1, rdb_last_bgsave_status = 1,
  aof_last_write_status = 1, slave_read_only = 1, evicted_keys = 1, aof_enabled = 1, rdb_last_save_time = 1,
  rdb_changes_since_last_save = 1, master_host = 1, master_port = 1 }
local names = { 'paused_until', 'order', 'fairness', 'token', 'asked', 'queue_rules', 'queue_gate', 'gated',
  'max_tasks', 'max_waiting', 'seen_max_keys' }
local paused, sorting, turns_kind, token, asked, rules_there, gate_there, gated, most, most_waiting, seen_most =
  unpack(redis.call('HMGET', conf, unpack(names)))
local is_paused = paused == 'inf' or (tonumber(paused or '') or 0) > now

local function whole(count)
  return string.format('%.0f', count)
end

local function soonest(set, from)
  return redis.call('ZRANGE', set, from, from, 'WITHSCORES')[2] or ''
end

local ended_leases, closings_over = past(invisible), past(closed)
local oldest, oldest_token, oldest_group = oldest_of(redis.call('ZRANGE', invisible, ended_leases, ended_leases + 99))
local lasting = redis.call('ZCARD', closed) - closings_over
asked = math.max(math.floor((tonumber(token or '') or 0) / 1000), tonumber(asked or '') or 0)
local values = { stamp, is_paused and paused or '', whole(lasting), soonest(closed, closings_over),
  whole(redis.call('HLEN', limits)), soonest(delayed, 0), sorting or 'fifo', turns_kind or 'none',
  whole(redis.call('HLEN', conf) + redis.call('HLEN', limits) + redis.call('HLEN', stats)),
  whole(redis.call('ZCARD', invisible) - ended_leases), whole(ended_leases), asked > 0 and whole(asked) or '', oldest,
  oldest_token, oldest_group, most or '', most_waiting or '',
  whole(redis.call('HLEN', meta) - redis.call('ZCARD', dead)), seen_most or '',
  whole(redis.call('ZLEXCOUNT', tracked, '[\14', '(\15')) }
for _, text in ipairs({ deaths() }) do
  values[#values + 1] = text
end
for _, text in ipairs({ standstill() }) do
  values[#values + 1] = text
end
local held, states, holders, found = {}, {}, {}, {}
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
local sections = { 'memory', 'persistence', 'replication', asked == 0 and 'keyspace' or nil }
for _, section in ipairs(sections) do
  local info = redis.pcall('INFO', section)
  for field, value in string.gmatch(type(info) == 'string' and info or '', '([%w_]+):([^\r\n]*)') do
    if TOLD[field] or string.find(field, '^db%d') then
      server[#server + 1], server[#server + 2] = field, value
      sections[#sections + 1] = field == 'maxmemory' and value ~= '0' and 'stats' or nil
    end
  end
end
return { values, held, states, holders, found, server }
