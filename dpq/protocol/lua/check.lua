-- check: find broken invariants in a bounded part of the stored data. No other command runs meanwhile, so each report
-- is true.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  part       ready, delayed, invisible, waiting, dead, closed, meta, payload, keys or groups
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to check, about
--
-- Returns {next cursor or 0, kind, subject, detail, kind, ...}: three texts for each problem. The kind `cron` is no
-- problem by itself. It says that the task `subject` recurs by the cron line `detail`, which only a client can read.
-- Lost reply: safe to send again.
local time, part, cursor, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Needs: now, record, groups, member, problem, diagnose, page
local set, page = page_of(part, cursor, count)
local function look_at_group(group, head)
  local score, _, shown = head_of(group)
  if tonumber(redis.call('ZSCORE', ready, shown or '') or 'nan') ~= score then
    problem('head not ready', group, head)
  elseif redis.call('ZSCORE', closed, group) then
    problem('closed group with a head', group, head)
  end
end

reply[1] = page[1]
if set == delayed or set == invisible or set == closed then
  local bound = tonumber(redis.call('HGET', conf, 'next_event') or '')
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  if first[2] and not (tonumber(first[2]) >= (bound or 1 / 0)) then -- also if it is NaN
    problem('event not noticed', first[1], 'due in ' .. part .. ' at ' .. first[2])
  end
end
for i = 1, #page[2], 2 do
  local name, value = page[2][i], page[2][i + 1]
  if set == meta then
    local task = read(value)
    if task then
      diagnose(name, task, {})
    else
      problem('bad record', name, value)
    end
  elseif set == groups then
    look_at_group(name, value)
  elseif set == closed then
    never_due(part, name, value)
  else
    local id, order, group = split(set, set == keys and value or name)
    local raw = redis.call('HGET', meta, id)
    local task = raw and read(raw)
    if not raw then
      problem('no record', id ~= '' and id or name, 'in ' .. part)
    elseif set == keys and task and task.key ~= name then
      problem('key of another task', id, name)
    elseif order and task and not (place_of(set, id, task) == name and (set == ready or value == '0')) then
      problem('stale place', id, name)
    elseif group and not redis.call('HGET', groups, group) and not redis.call('ZSCORE', closed, group) then
      problem('no head', id, group)
    else
      never_due(part, id, value, task)
    end
  end
end
return reply
