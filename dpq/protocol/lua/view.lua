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
-- KEYS[10] stats      HASH    running totals, and copies of what people set
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2..]            groups, "" for the queue
--
-- Returns seven texts for each: "", or "queue" or its field of limits, TAB and its rules; when it opens, ms,
-- or "0"; why it lets no task run (l a 429, h by hand, u its rules cannot be read, p the probe is out, c
-- concurrency, s spent; "" when it does); the rate and the slack, ms, that it has learned; the units left of each
-- window; how many tasks are due; and now, ms.
-- Lost reply: safe to send again.
local ready, invisible, waiting, groups, closed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local conf, limits, gates, tracked, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local now, args = ARGV[1], ARGV

-- @include _now
-- @include _groups
-- @include _rules
-- @include _pace
-- @include _gate
copies, own_limits, lacking = stats, 2, {} -- so rules that are lost are shown: nothing runs until they are back
local reply = {}
for i = 2, #args do
  local scope = args[i]
  local gate = gate_of(scope)
  local at, why, left, text = opens_at(gate, 1, math.huge), '', {}, ''
  for _, field in ipairs(scope == '' and { 'queue' } or { 'groups', 'group:' .. scope }) do
    local rules = rules_of(field)
    text = rules and field .. '\t' .. (rules.unreadable and '' or rules.text) or text
  end
  for n, window in ipairs(gate.rules) do
    local units = window.burst - math.max(0, gate[n].owed - instant) / gate[n].interval
    left[n] = string.format('%.6f', units)
  end
  if gate.opens > instant then
    why = gate.why
  elseif gate.rules.unreadable then
    why, at = 'u', 0
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
  reply[#reply + 1] = string.format('%.17g %.17g', gate.rate, gate.slack)
  reply[#reply + 1] = table.concat(left, ' ')
  reply[#reply + 1] = string.format('%.0f', due)
  reply[#reply + 1] = stamp
end
return reply
