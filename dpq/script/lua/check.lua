-- check: find broken invariants in a bounded part of the stored data. It changes nothing.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats limits gates tracked batches
--       followers recent
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  part       groups, meta, payload, keys, followers; waiting, ready, delayed, invisible, dead; settings;
--                     limits; tracked; leases (which tracked lacks); events (moments that next_event lacks); sums (if
--                     each record is in one state, and there are as many entries as records, no entry lacks a
--                     record); batches
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to check, about
--
-- Returns {next cursor or 0, kind, subject, detail, kind, ...}: three texts for each problem. For sums: {0}, or {1} if
-- they differ. For batches, to compare with what they count: {next cursor, dead or left, task, batch, ...}; two pages
-- may name the same task.
-- Lost reply: safe to send again.

-- Needs: now, refusal
local refused = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
end
-- Needs: record, heads, order, notes, problem, diagnose, waits, limited
if part == 'events' then
  local bound = tonumber(redis.call('HGET', conf, 'next_event') or '') or 1 / 0
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
  return reply
end
if part == 'sums' then
  local entries = 0
  for _, set in ipairs({ waiting, ready, delayed, invisible, dead }) do
    entries = entries + redis.call('ZCARD', set)
  end
  return { entries == redis.call('HLEN', meta) and '0' or '1' }
end
if part == 'settings' then
  look_at_settings()
  return reply
end
local set, page = page_of(part, cursor, count)

-- Looks at an entry that leads to a task; the entry is of a set, of payload or of keys.
local function look_at_entry(name, value)
  if set == keys and string.find(value, '\t', 1, true) then
    return look_at_seen(name, value)
  end
  local id, order = split(set, set == keys and value or name)
  local raw = redis.call('HGET', meta, id)
  if set == keys and raw and string.match(raw, '^[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t') == name then
    return -- the usual case, without the reading of the whole record
  end
  local task = raw and read(raw)
  if not raw then
    problem('no record', id ~= '' and id or name, 'in ' .. part)
  elseif set == keys and task and task.key ~= name then
    problem('key of another task', id, name)
  elseif task and order and place_of(set, id, task) ~= name then
    problem('stale place', id, name)
  end
end

reply[1] = page[1]
for i = 1, #page[2], 2 do
  local name, value = page[2][i], page[2][i + 1]
  local batch = part == 'batches' and string.match(value, OF_BATCH)
  if batch then
    problem(redis.call('ZSCORE', dead, name) and 'dead' or 'left', name, batch)
  elseif part == 'meta' then
    local task = read(value)
    if task then
      diagnose(name, task)
    else
      problem('bad record', name, value)
    end
    look_at_wait(name, value)
  elseif set == followers then
    look_at_follower(name)
  elseif set == limits then
    look_at_rules(name == 'groups' and '*' or string.match(name, '^group:(.*)$') or name, value)
  elseif set == tracked then
    look_at_tracked(name)
  elseif part == 'leases' then
    look_at_lease(name)
  elseif set == groups and string.byte(name) == 9 then -- what a group has spent (shares)
    if not string.find(value, '^%d[%d.e+-]* %d[%d.e+-]* ?%S* ?[%d.e+-]*$') then
      problem('bad share', string.sub(name, 2), value)
    end
  elseif set == groups then
    local _, _, shown = head_in(value)
    if not redis.call('ZSCORE', ready, shown or '') then
      problem('head not ready', name, value)
    end
  elseif part ~= 'batches' then
    look_at_entry(name, value)
  end
end
return reply
