-- push_plain: add tasks that are ready at once, if there is nothing to decide. It is the short way of push.
--
-- Keys: ready meta conf stats wake
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..]           plain tasks without a group, as push has them: id, score, "max priority TAB LF" and payload
--
-- Returns {0} or {1} as push does. {-5}: the caller is to call push; nothing has changed, except that a damaged
-- sequence may have grown. This is the reply if a task has another form or is stored already; if the queue has
-- bounds, aging, turns, a trail, another format or payloads apart from records; and if its limit let no task run.
-- Lost reply: the second call finds the tasks stored, and so does push.
local time, args = ARGV[1], ARGV

-- Needs: now, layout
local settings = redis.call('HMGET', conf, 'format', 'order', 'aging', 'fairness', 'shut_until', 'bounded',
  'payloads', 'trail_max_events')
local format = settings[1]
if format ~= '03' and format ~= '04' or settings[5] or settings[6] or settings[8] or now >= 2 ^ 44 or #args % 3 ~= 1
  or settings[3] and tonumber(settings[3]) ~= 0 or settings[4] == 'round_robin'
  or (settings[7] or 'inline') ~= 'inline' then
  return { format and -5 or 1 }
end
local ids = {}
for i = 2, #args, 3 do
  local id, body = args[i], args[i + 2]
  if not tonumber(args[i + 1]) or #id > 200 or #body > 1000 or not string.find(body, '^%d* %-?%d+\t\n') then
    return { -5 }
  end
  ids[#ids + 1] = id
end
for i, known in ipairs(redis.call('HMGET', meta, unpack(ids))) do
  if known then
    return { -5 }
  end
end
if settings[2] == 'min' then
  -- Needs: turn_all
  turn_all(args, {})
end
local count, lifo = #ids, settings[2] == 'lifo'
local reached = redis.pcall('HINCRBY', stats, 'pushed', count)
if not tonumber(reached) or reached < count or reached > 9e14 then -- as in draw
  return { -5 }
end
local metas, members, moment, n = {}, {}, string.format(SHORT_HEAD, now), 0
for i = 1, count do
  local place = reached - count + i
  local order, id, at = string.format('%015d', lifo and 999999999999999 - place or place), ids[i], 3 * i
  metas[n + 1], metas[n + 2] = id, moment .. order .. args[at + 1]
  members[n + 1], members[n + 2] = args[at], '1' .. order .. id
  n = n + 2
end
redis.call('HSET', meta, unpack(metas))
redis.call('ZADD', ready, unpack(members))
redis.call('ZADD', wake, '0', 'w')
return { 0 }
