-- drain: read how many tasks wait for each limit that may be the slowest, and what it allows. Changes nothing.
--
-- Keys: ready invisible waiting groups closed meta conf limits gates tracked stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  named      groups with a limit of their own that are counted at most
-- ARGV[3]  largest    other groups that are counted at most: those with most tasks of 200 at random
-- ARGV[4]  last       closed groups that are counted at most: those that open last
--
-- Returns {settings, scopes}. Settings: now, paused_until, tasks that are due, pushed and replayed tasks, and those
-- that were acked or buried. Scopes, flat: scope ("" the queue, * all groups without a limit of their own), its due
-- tasks, gate_line, the costs of some of them with spaces between ("" if all cost 1).
-- Lost reply: safe to send again.
local time, named, largest, last = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- Needs: now, groups, rules, bare, member, record, gate_line
seen.copies, seen.count, seen.lacking = stats, 2, {} -- as view: lost rules count
local heavy = redis.call('HGET', conf, 'heavy') == '1'
local scopes, known, seen_of, order, sample = { '', '*' }, { [''] = true, ['*'] = true }, {}, {}, {}
for i, place in ipairs(redis.call('ZSCAN', waiting, '0', 'COUNT', '200')[2]) do -- in the order of a hash: at random
  sample[#sample + 1] = i % 2 == 1 and place or nil
end

local function know(group)
  if not known[group] then
    known[group], scopes[#scopes + 1] = true, group
  end
end

local function costs_of(set, members)
  local costs = {}
  for i = 1, heavy and math.min(#members, 100) or 0 do
    local raw = redis.call('HGET', meta, (split(set, members[i])))
    local task = raw and read(raw)
    costs[#costs + 1] = task and task.cost or nil
  end
  return table.concat(costs, ' ')
end

-- A role without HSCAN sees the largest groups only.
for _, field in ipairs(redis.pcall('HSCAN', limits, '0', 'COUNT', named)[2] or {}) do
  know(string.match(field, '^group:(.*)$') or '*') -- a value is no such field
end
for _, group in ipairs(redis.call('ZRANGE', closed, -last, -1)) do
  know(group)
end
for _, place in ipairs(sample) do
  local group = string.match(place, '^[^\t]*')
  if not seen_of[group] then
    seen_of[group], order[#order + 1] = 0, group
  end
  seen_of[group] = seen_of[group] + 1
end
table.sort(order, function(one, other)
  return seen_of[one] > seen_of[other]
end)
for i = 1, math.min(largest, #order) do
  know(order[i])
end
bare(scopes)
local queued, heads, reply = redis.call('ZCARD', waiting), redis.call('ZCARD', ready), {}
for _, scope in ipairs(scopes) do
  local from, to = '[' .. scope .. '\t', '(' .. scope .. '\n'
  local count, costs = queued + heads, nil
  if scope == '' then
    costs = costs_of(queued > 0 and waiting or ready, queued > 0 and sample
      or redis.call('ZRANGE', ready, 0, 99))
  else
    count = redis.call('ZLEXCOUNT', waiting, from, to) + (head_of(scope) and 1 or 0)
    costs = heavy and costs_of(waiting, redis.call('ZRANGE', waiting, from, to, 'BYLEX', 'LIMIT', 0, 5)) or ''
  end
  local n = #reply
  reply[n + 1], reply[n + 2] = scope, string.format('%.0f', count)
  reply[n + 3], reply[n + 4] = gate_line(scope), costs
end
-- Needs: counts
local _, acked = counts_of('r')
local totals = redis.call('HMGET', stats, 'pushed', 'replayed', 'acked', 'buried')
for i = 1, 4 do
  totals[i] = tonumber(totals[i] or 0) or 0
end
return { { string.format('%.17g', instant), redis.call('HGET', conf, 'paused_until') or '',
  string.format('%.0f', queued + heads), string.format('%.0f', totals[1] + totals[2]),
  string.format('%.0f', totals[3] + totals[4] + acked) }, reply }
