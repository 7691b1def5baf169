-- repair: mend broken invariants in a bounded part of the stored data. It loses no task: a task without its record or
-- its payload becomes a dead letter.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked events trail
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  part       in this order: waiting, ready, groups, closed, meta, payload, delayed, invisible, dead, keys,
--                     heads (groups in waiting that lack a head), events (moments that next_event lacks)
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to check, about
-- ARGV[5..]           cron lines by which no task can recur
--
-- Returns {next cursor or 0, kind, subject, detail, kind, ...} as check does, for the problems that it has mended and
-- for the kind `cron`. {-8, ...}: the client knows another format (refusal).
-- Lost reply: safe to send again; a mended problem is not named a second time.
local time, part, cursor, count, args = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV

-- Needs: now, refusal
local refused = refusal(redis.call('HGET', conf, 'format'), nil, '0')
if refused then
  return refused
end
-- Needs: record, notice, groups, place, next, member
local torn, spoilt = {}, {} -- `torn`: groups to begin anew; `spoilt`: invalid cron lines
for i = 5, #args do
  spoilt[args[i]] = true
end
-- Needs: problem, diagnose, mend, regroup, go_on
go_on()
local heads = part == 'heads'
part = heads and 'waiting' or part
if part == 'events' then
  local bound = tonumber(redis.call('HGET', conf, 'next_event') or '') or 1 / 0
  reply[1] = '0'
  for name, set in pairs({ delayed = delayed, invisible = invisible, closed = closed }) do
    local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
    if first[2] and not (tonumber(first[2]) >= bound) then -- also if it is NaN
      problem('event not noticed', first[1], 'due in ' .. name .. ' at ' .. first[2])
    end
  end
  if reply[2] then
    notice(next_event() - now)
  end
  return reply
end
-- Needs: page
local set, page = page_of(part, cursor, count)
reply[1] = page[1]

local function mend_group(group, head)
  local score, _, shown = head_of(group)
  if tonumber(redis.call('ZSCORE', ready, shown or '') or 'nan') ~= score then
    problem('head not ready', group, head)
    torn[group] = true
  elseif redis.call('ZSCORE', closed, group) then
    problem('closed group with a head', group, head)
    torn[group] = true
  end
end

-- Mends an entry that leads to a task; the entry is of a set, of payload or of keys.
local function mend_entry(name, value)
  local id, order, group = split(set, set == keys and value or name)
  local raw = redis.call('HGET', meta, id)
  local task = raw and read(raw)
  if not raw then
    problem('no record', id ~= '' and id or name, 'in ' .. part)
    if set ~= payload then
      redis.call(set == keys and 'HDEL' or 'ZREM', set, name)
    end
    salvage(id)
  elseif set == keys and task and task.key ~= name then
    problem('key of another task', id, name)
    redis.call('HDEL', keys, name)
  elseif order and not heads and not (task and place_of(set, id, task) == name
    and (set == ready or value == '0')) then
    if task then -- else the walk through meta reports it
      problem('stale place', id, name)
    end
    redis.call('ZREM', set, name)
  elseif heads and group and not redis.call('HGET', groups, group) and not redis.call('ZSCORE', closed, group) then
    problem('no head', id, group)
    torn[group] = true
  elseif never_due(part, id, value, task) then -- its lease ends now; its delay ends when its record says
    local due = task and set == delayed and task.enqueued + task.wait or now
    due = due > horizons.delayed and now or due
    redis.call('ZADD', set, string.format('%.0f', due), id)
    notice(due - now)
  end
end

for i = 1, #page[2], 2 do
  if set == meta then
    mend(page[2][i], page[2][i + 1], torn, spoilt)
  elseif set == groups then
    mend_group(page[2][i], page[2][i + 1])
  elseif set == closed then
    torn[page[2][i]] = never_due(part, page[2][i], page[2][i + 1]) or nil
  else
    mend_entry(page[2][i], page[2][i + 1])
  end
end
for group in pairs(torn) do
  regroup(group)
end
admit()
return reply
