-- drain: read how many tasks wait for each limit that may be the slowest, and what that limit allows. It changes
-- nothing.
--
-- Keys: ready delayed invisible waiting groups closed meta conf limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  named      number: how many groups with a limit of their own are counted at most
-- ARGV[3]  largest    number: how many other groups are counted at most: the groups with most tasks of 200 random tasks
-- ARGV[4]  last       number: how many closed groups are counted at most: the groups that open last
-- ARGV[5]  whose      a limit whose scope is counted in any case: "queue", "groups" or "group:" and a name; or left out
-- ARGV[6]  supposed   compute as if this limit had these rules, "" for none; or left out
--
-- Returns {settings, scopes}. Settings: now; paused_until; how many tasks are due. Scopes, flat, the queue first, with
-- the fields of `Scope` (dpq/explain/drain.py) in their order; 1 and 0 for true and false, "" for the slowest rule of a
-- scope that is only closed. What tasks take is read from up to 200 of them.
-- Lost reply: safe to send again.

-- Needs: now, moments, groups, order, rules, gate, clears
seen.count = 2
local heavy = redis.call('HGET', conf, 'heavy') == '1'
local scopes, known, seen_of, order = { '', '*' }, { [''] = true, ['*'] = true }, {}, {}
local due, lapsed = past(delayed), past(invisible)
local queued, heads, reply = redis.call('ZCARD', waiting), redis.call('ZCARD', ready) + due + lapsed, {}
local SAMPLE = 200 -- how many tasks of the queue are read
local all = queued + heads <= SAMPLE

local function some_of(set) -- a large set in the order of its hash table, so at random
  local found = all and redis.call('ZRANGE', set, '0', '-1') or {}
  for i, member in ipairs(all and {} or redis.call('ZSCAN', set, '0', 'COUNT', SAMPLE)[2]) do
    found[#found + 1] = i % 2 == 1 and member or nil
  end
  return found
end
local sample = some_of(waiting)

local function add_ids(ids, set, members, most)
  for i = 1, math.min(#members, most) do
    ids[#ids + 1] = split(set, members[i])
  end
end

local function know(group)
  if not known[group] then
    known[group], scopes[#scopes + 1] = true, group
  end
end

know(string.match(whose or '', '^group:(.*)$') or '')
-- A role without HSCAN sees the largest groups only.
for _, field in ipairs(redis.pcall('HSCAN', limits, '0', 'COUNT', named)[2] or {}) do
  know(string.match(field, '^group:(.*)$') or '*') -- "*" for a value, which is no such field
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
if supposed then
  local before, rules = stored_rules(hash_of(whose)) or '', parsed(supposed)
  if rules then
    rules.text, rules.own, (rules.every or rules).own = supposed, whose ~= 'groups', whose ~= 'groups'
  end
  seen.rules[whose], seen.realign = rules or false, before ~= supposed and string.find(before .. supposed, '|%u') ~= nil
end
local each, paused = math.max(5, math.floor(600 / #scopes)), redis.call('HGET', conf, 'paused_until') or ''
local start = math.max(instant, tonumber(paused ~= 'inf' and paused or '') or 0, gate_of('').opens)
for _, scope in ipairs(scopes) do
  local from, to = '[' .. scope .. '\t', '(' .. scope .. '\n'
  local count = scope == '' and queued + heads
    or redis.call('ZLEXCOUNT', waiting, from, to) + (head_of(scope) and 1 or 0)
  local gate, ids, share = gate_of(scope), {}, SAMPLE * queued / math.max(1, queued + heads)
  if scope == '' then
    add_ids(ids, ready, heavy and some_of(ready) or {}, SAMPLE - share)
    add_ids(ids, waiting, sample, share)
  elseif heavy then
    local _, _, head = head_of(scope)
    add_ids(ids, ready, { head }, 1)
    local first, others = redis.call('ZLEXCOUNT', waiting, '-', '(' .. scope .. '\t'), count - #ids
    for i = 0, math.min(others, each) - 1 do -- from the first to the last one
      local rank = first + math.floor(i * others / math.min(others, each))
      add_ids(ids, waiting, redis.call('ZRANGE', waiting, rank, rank), 1)
    end
  end
  local rules, busy = gate.rules, 0
  if rules.concurrency > 0 or gate.probe ~= '-' then
    local is_full, free = full(gate)
    busy = (is_full or free and free < count) and 1 or 0
  end
  local rated = rules[1] or gate.meters or rules.members or gate.opens > instant
  local at, slowest = clears_at(gate, costs_of(heavy and ids or {}, gate), count, start)
  local learned = rules.ceiling > 0 and not rules.members and gate.rate or math.huge
  for _, mate in ipairs(gate.mates or {}) do
    learned = math.min(learned, mate.rules.ceiling > 0 and mate.rate or math.huge)
  end
  for _, text in ipairs({ scope, string.format('%.0f', count), string.format('%.17g', at), slowest,
    string.format('%d', busy), rated and '1' or '0', rules.unreadable and '1' or '0', rules.text or '',
    string.format('%.17g', learned < math.huge and learned or 0) }) do
    reply[#reply + 1] = text
  end
end
return { { string.format('%.17g', instant), paused, string.format('%.0f', queued + heads) }, reply }
