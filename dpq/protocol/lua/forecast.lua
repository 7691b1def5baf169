-- forecast: read the tasks, closings and limits that decide which tasks start next. It changes nothing.
--
-- Keys: ready delayed invisible waiting groups closed meta conf limits gates tracked stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  most       how many heads, delayed tasks, leases and closed groups are read at most, of each kind
-- ARGV[3]  queued     how many waiting tasks are read at most, of all groups together; if the head of a group is not
--                     among the heads that are read, none of the group
-- ARGV[4]  preview    how many bytes are read of a payload that stands in a record
--
-- Returns {settings, counts, tasks, closed, gates, short}.
-- * Settings: now, paused_until, fairness, partitions, turns, aging, aging_since, heavy, order, and `family`
--   of the head's conf; "" if a setting is not set.
-- * Counts: how many entries ready, delayed, invisible and closed have.
-- * Tasks, flat: r (ready), d (delayed), b (delayed, and it holds its group in order), i (invisible), w (waiting) or h
--   (a head that is not among the heads that are read); its member; its score; its record with the first bytes of its
--   payload.
-- * Closed, flat: a group, and when it opens, ms. Gates, flat: a scope and its gate_line.
-- * Short: the groups of which more tasks may wait than were read.
-- Lost reply: safe to send again.
local time, most, queued, preview = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- Needs: now, groups, rules, bare, member, gate_line, layout
seen.copies, seen.count, seen.lacking = copies, 2, {} -- as view: lost rules count
local scopes, known, headed, tasks = { '' }, { [''] = true }, {}, {}

local function know(group)
  if not known[group] then
    known[group], scopes[#scopes + 1] = true, group
  end
end

local function add(letter, member, score, raw)
  local n, ended = #tasks, #raw > preview and string.find(raw, '\n', 1, true)
  tasks[n + 1], tasks[n + 2], tasks[n + 3] = letter, member, score
  tasks[n + 4] = ended and string.sub(raw, 1, ended + preview) or raw
end

local function records_of(ids)
  return ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}
end

for letter, set in pairs({ r = ready, d = delayed, i = invisible }) do
  local found, ids = redis.call('ZRANGE', set, 0, most - 1, 'WITHSCORES'), {}
  for i = 1, #found, 2 do
    ids[#ids + 1] = split(set, found[i])
  end
  for i, raw in ipairs(records_of(ids)) do
    if raw then
      local group = string.match(raw, GROUP) or ''
      know(group)
      headed[group] = headed[group] or set == ready
      local holds = set == delayed and redis.call('ZSCORE', tracked, group .. '\t' .. ids[i])
      add(holds and 'b' or letter, found[2 * i - 1], found[2 * i], raw)
    end
  end
end
local closings = redis.call('ZRANGE', closed, 0, most - 1, 'WITHSCORES')
for i = 1, #closings, 2 do
  know(closings[i])
end
local lines, short, ids, places, queues = {}, {}, {}, {}, {}
bare(scopes)
for i, group in ipairs(scopes) do
  lines[2 * i - 1], lines[2 * i] = group, gate_line(group)
  local score, _, shown = head_of(group)
  if score and not headed[group] then -- its tasks come behind a head that was not read above
    ids[#ids + 1], places[#places + 1] = split(ready, shown), { 'h', shown, string.format('%.17g', score) }
    short[#short + 1] = group
  elseif group ~= '' then
    queues[#queues + 1] = group
  end
end
local each = math.max(1, math.min(most, math.floor(queued / #queues)))
for _, group in ipairs(queues) do
  local from, to = '[' .. group .. '\t', '(' .. group .. '\n'
  local members = redis.call('ZRANGE', waiting, from, to, 'BYLEX', 'LIMIT', 0, each + 1)
  for n = 1, math.min(#members, each) do
    ids[#ids + 1], places[#places + 1] = split(waiting, members[n]), { 'w', members[n], '0' }
  end
  short[#short + 1] = #members > each and group or nil
end
for i, raw in ipairs(records_of(ids)) do
  if raw then
    local letter, member, score = unpack(places[i])
    add(letter, member, score, raw)
  end
end
local settings = redis.call('HMGET', conf, 'paused_until', 'fairness', 'partition_count', 'turns', 'aging',
  'aging_since', 'heavy', 'order')
local texts = { string.format('%.17g', instant) }
for i = 1, 8 do
  texts[i + 1] = settings[i] or ''
end
texts[10] = redis.call('HGET', shared, 'family') or ''
local counts = {}
for i, set in ipairs({ ready, delayed, invisible, closed }) do
  counts[i] = redis.call('ZCARD', set)
end
return { texts, counts, tasks, closings, lines, short }
