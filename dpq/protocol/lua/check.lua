-- check: find broken invariants in a bounded part of the stored data, and mend them if a repair asks for that. A repair
-- loses no task: a task without its record or its payload becomes a dead letter. No other command runs meanwhile, so
-- each report is true.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked events trail batches followers errors recent
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  part       a repair goes over them in this order: waiting, ready, groups, meta, payload, delayed, invisible,
--                     dead, keys, errors, followers, events (moments that next_event lacks)
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to check, about
-- ARGV[5]  mend       "1": mend each problem; else only look, and call no command that writes
--
-- Returns {next cursor or 0, kind, subject, detail, kind, ...}: three texts for each problem. {-8, ...}: the client
-- knows another format (refusal).
-- Lost reply: safe to send again; a mended problem is not named a second time.
local time, part, cursor, count, mend = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Needs: now, refusal
local refused = refusal(redis.call('HGET', conf, 'format'), nil, '0')
if refused then
  return refused
end
local mends = mend == '1'
-- Needs: record, notice, heads, place, next, member, problem, diagnose, mend, regroup, go_on, page, waits,
--   notes, marks, seen_keys
if mends then
  go_on()
end
if part == 'events' then
  local bound = tonumber(redis.call('HGET', conf, 'next_event') or '') or 1 / 0
  reply[1] = '0'
  for name, set in pairs({ delayed = delayed, invisible = invisible, closed = closed }) do
    local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
    if first[2] and tonumber(first[2]) < bound then
      problem('event not noticed', first[1], 'due in ' .. name .. ' at ' .. first[2])
    end
  end
  local over = string.match(redis.call('ZRANGE', followers, '0', '0')[1] or '', '^\t%l+\t(.*)$')
  if over and bound > now then
    problem('event not noticed', over, 'a task that has ended, and for which others wait')
  end
  if mends and reply[2] then
    notice(over and 0 or next_event() - now)
  end
  return reply
end
local set, page = page_of(part, cursor, count)
local torn = {} -- groups to begin anew

-- Looks at an entry that leads to a task; the entry is of a set, of payload or of keys.
local function look_at_entry(name, value)
  if set == keys and string.find(value, '\t', 1, true) then
    return look_at_seen(name, value, mends)
  end
  local id, order, group = split(set, set == keys and value or name)
  local raw = redis.call('HGET', meta, id)
  local task = raw and read(raw)
  local stale = true
  if not raw then
    problem('no record', id ~= '' and id or name, 'in ' .. part)
  elseif set == keys and task and task.key ~= name then
    problem('key of another task', id, name)
  elseif task and order and place_of(set, id, task) ~= name then
    problem('stale place', id, name)
  elseif set == errors and task and string.byte(note_of(task, FAILURES) or '0') == 48 then
    problem('errors not noted', id)
  else
    stale = order and not task -- the walk through meta reports this record
    if task and group and not torn[group] and redis.call('HEXISTS', groups, group) == 0
      and not redis.call('ZSCORE', closed, group) then
      problem('no head', id, group)
      torn[group] = true
    end
  end
  if mends and stale and set ~= payload then
    redis.call((set == keys or set == errors) and 'HDEL' or 'ZREM', set, name)
  end
  if mends and not raw then
    salvage(id)
  end
end

reply[1] = page[1]
for i = 1, #page[2], 2 do
  local name, value = page[2][i], page[2][i + 1]
  if set == meta then
    look_at_task(name, value, mends, torn)
    look_at_wait(name, value, mends)
  elseif set == followers then
    look_at_follower(name, mends)
  elseif set == groups and string.byte(name) == 9 then -- what a group has spent (shares)
    if not string.find(value, '^%d[%d.e+-]* %d[%d.e+-]* ?%S* ?[%d.e+-]*$') then
      problem('bad share', string.sub(name, 2), value)
      if mends then
        redis.call('HDEL', groups, name)
      end
    end
  elseif set == groups then
    local _, _, shown = head_in(value)
    if not redis.call('ZSCORE', ready, shown or '') then
      problem('head not ready', name, value)
      torn[name] = true
    end
  else
    look_at_entry(name, value)
  end
end
if mends then
  for group in pairs(torn) do
    regroup(group)
  end
  admit()
end
return reply
