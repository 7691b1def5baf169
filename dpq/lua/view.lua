-- view: what limits, closings and probes allow now, without touching them.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  invisible  ZSET    id -> lease end, ms
-- KEYS[3]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[4]  groups     HASH    group -> its head
-- KEYS[5]  closed     ZSET    group -> opens, ms
-- KEYS[6]  conf       HASH    settings
-- KEYS[7]  limits     HASH    what is limited -> how
-- KEYS[8]  gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[9]  tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2..]            groups, "" for the queue
--
-- Returns seven texts for each: "", or "queue" or its field of limits, TAB and its rules; when it opens, ms,
-- or "0"; why it lets no task run (l a 429, h by hand, p the probe is out, c concurrency, s spent; "" when it
-- does); the rate that it has learned; the units left of each window; how many tasks are due; and now, ms.
-- Lost reply: safe to send again.
local ready, invisible, waiting, groups, closed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local conf, limits, gates, tracked = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local now, args = ARGV[1], ARGV

-- @include _now
-- @include _groups
-- @include _gate
local reply = {}
for i = 2, #args do
  local scope = args[i]
  local gate = gate_of(scope)
  local at, why, left = opens_at(gate, 1, math.huge), '', {}
  local text = scope == '' and queue_texts[1] and 'queue\t' .. queue_texts[1] or ''
  for _, field in ipairs(scope ~= '' and { 'groups', 'group:' .. scope } or {}) do
    local rules = redis.call('HGET', limits, field)
    text = rules and field .. '\t' .. rules or text
  end
  for n, window in ipairs(gate.rules) do
    local units = window.burst - math.max(0, gate[n].owed - instant) / gate[n].interval
    left[n] = string.format('%.6f', units)
  end
  if gate.opens > instant then
    why = gate.why
  elseif full(gate) then
    why, at = #gate.probe == 1 and 'c' or 'p', 0 -- "-" and "p": none is out
  elseif at > instant then
    why = 's'
  else -- open for one unit, but the best task of the group needs more
    at = tonumber(scope ~= '' and redis.call('ZSCORE', closed, scope) or 0)
    why = at > instant and 's' or ''
  end
  local due = redis.call('ZLEXCOUNT', waiting, '[' .. scope .. '\t', '(' .. scope .. '\n')
  if scope == '' then
    due = redis.call('ZCARD', waiting) + redis.call('ZCARD', ready)
  elseif head_of(scope) then
    due = due + 1
  end
  reply[#reply + 1] = text
  reply[#reply + 1] = string.format('%.17g', at > instant and at or 0)
  reply[#reply + 1] = why
  reply[#reply + 1] = string.format('%.17g', gate.rate)
  reply[#reply + 1] = table.concat(left, ' ')
  reply[#reply + 1] = string.format('%.0f', due)
  reply[#reply + 1] = stamp
end
return reply
