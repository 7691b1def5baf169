-- check: look for broken invariants in a bounded part of the stored data. Nothing can move meanwhile,
-- so what it reports is so.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  closed     ZSET    group -> opens, ms
-- KEYS[7]  payload    HASH    id -> bytes
-- KEYS[8]  meta       HASH    id -> record
-- KEYS[9]  dead       ZSET    id -> when, ms
-- KEYS[10] keys       HASH    unique key -> id
-- KEYS[11] conf       HASH    settings
-- ARGV[1]  part       ready, delayed, invisible, waiting, dead, closed, meta, payload, keys or groups
-- ARGV[2]  cursor     0 to begin
-- ARGV[3]  count      entries to look at, about
--
-- Returns {next cursor or 0, kind, subject, detail, kind, ...}: three texts for each problem.
-- Lost reply: safe to send again.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf = KEYS[11]
local part, cursor, count = ARGV[1], ARGV[2], ARGV[3]

-- @include _record
-- @include _groups
-- @include _member
local reply = {}
local function problem(kind, subject, detail)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = kind, subject, detail or ''
end

local function look_at_task(id, raw)
  local task = read(raw)
  if not task then
    return problem('bad record', id, raw)
  end
  local states, member = {}, task.order .. id
  for name, set in pairs({ delayed = delayed, invisible = invisible, dead = dead }) do
    states[#states + 1] = redis.call('ZSCORE', set, id) and name or nil
  end
  local _, first, shown = head_of(task.group)
  local score = redis.call('ZSCORE', ready, first == member and shown or member)
  if score then
    states[#states + 1] = 'ready'
    if tonumber(score) ~= score_of(task) then
      problem('wrong score', id, score)
    elseif task.group ~= '' and first ~= member then
      problem('not the head', id, task.group)
    end
  end
  if task.group ~= '' and redis.call('ZSCORE', waiting, behind(task.group, score_of(task), member)) then
    states[#states + 1] = 'waiting'
  end
  if #states ~= 1 then
    problem('in ' .. #states .. ' states', id, table.concat(states, ' '))
  end
  if redis.call('HEXISTS', payload, id) == 0 then
    problem('no payload', id)
  end
  if task.schedule ~= '' and not string.match(task.schedule, '^\te %d+ %d+ %d+$')
    and not string.match(task.schedule, '^\tc %d+ %d+ %S+ %S+ %S+ %S+ %S+ .*%S$') then
    problem('bad schedule', id, task.schedule)
  end
  if task.key ~= '' and redis.call('HGET', keys, task.key) ~= id then
    problem('key lost', id, task.key)
  end
end

local function is_head(group, member)
  local _, _, shown = head_of(group)
  return shown == member
end

local function look_at_group(group, head)
  local score, _, shown = head_of(group)
  if tonumber(redis.call('ZSCORE', ready, shown or '') or 'nan') ~= score then
    problem('head not ready', group, head)
  elseif redis.call('ZSCORE', closed, group) then
    problem('closed group with a head', group, head)
  end
end

local bound = tonumber(redis.call('HGET', conf, 'next_event') or '')
local set = ({ ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead,
  closed = closed, meta = meta, payload = payload, keys = keys, groups = groups })[part]
local hash = set == meta or set == payload or set == keys or set == groups
if set == payload then -- each record was seen to have one; a page of payloads would be a lot
  if redis.call('HLEN', payload) <= redis.call('HLEN', meta) then
    return { '0' }
  end
  count = '1'
end
local page = redis.call(hash and 'HSCAN' or 'ZSCAN', set, cursor, 'COUNT', count)
reply[1] = page[1]
local first = redis.call('ZRANGE', hash and dead or set, 0, 0, 'WITHSCORES')
if (set == delayed or set == invisible or set == closed) and first[2] and tonumber(first[2]) < (bound or 1 / 0) then
  problem('event not noticed', first[1], 'due in ' .. part .. ' at ' .. first[2])
end
for i = 1, #page[2], 2 do
  local name, value = page[2][i], page[2][i + 1]
  if set == meta then
    look_at_task(name, value)
  elseif set == groups then
    look_at_group(name, value)
  elseif set ~= closed then
    local id, order, group = split(set, set == keys and value or name)
    local raw = redis.call('HGET', meta, id)
    local task = raw and read(raw)
    if not raw then
      problem('no record', id, 'in ' .. part)
    elseif set == keys and task and task.key ~= name then
      problem('key of another task', id, name)
    elseif order and task and task.order ~= order and not is_head(task.group, name) then
      problem('stale place', id, name)
    elseif group and not redis.call('HGET', groups, group) and not redis.call('ZSCORE', closed, group) then
      problem('no head', id, group)
    end
  end
end
return reply
