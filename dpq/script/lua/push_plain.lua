-- push_plain: add tasks that are ready at once, if there is nothing to decide. It is the short way of push.
--
-- Keys: ready waiting groups closed meta conf stats wake
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..]           plain tasks, as push has them: id, score, "max priority TAB group LF" and payload
--
-- Returns {0} or {1} as push does. {-5}: the caller is to call push; nothing has changed, except that a damaged
-- sequence may have grown. This is the reply if a task has options or is stored already; if the queue has bounds,
-- aging, turns, another format or payloads apart from records; and if its tasks have costs while a group is closed.
-- Lost reply: the second call finds the tasks stored, and so does push.

-- Needs: now, layout
local settings = redis.call('HMGET', conf, 'format', 'order', 'aging', 'fairness', 'shut_until', 'bounded', 'payloads',
  'heavy')
local format = settings[1]
if format ~= '05' or settings[6] or now >= 2 ^ 44 or #args % 3 ~= 1
  or settings[3] and tonumber(settings[3]) ~= 0 or (settings[4] or 'none') ~= 'none'
  or (settings[7] or 'inline') ~= 'inline' then
  return { format and -5 or 1 }
end
local ids, group_of, grouped = {}, {}, false
for i = 2, #args, 3 do
  local group = string.match(args[i + 2], '\t([^\n]*)')
  if not tonumber(args[i + 1]) then -- options
    return { -5 }
  end
  ids[#ids + 1] = args[i]
  group_of[#ids], grouped = group, grouped or group ~= ''
end
if grouped and settings[8] == '1' and redis.call('EXISTS', closed) == 1 then
  return { -5 }
end
for i, known in ipairs(redis.call('HMGET', meta, unpack(ids))) do
  if known then
    return { -5 }
  end
end
if settings[2] == 'min' then
  -- Needs: rank
  turn_all(args, {})
end
local count, lifo = #ids, settings[2] == 'lifo'
local reached = redis.pcall('HINCRBY', stats, 'pushed', count == 1 and '1' or count)
if not tonumber(reached) or reached < count or reached > 9e14 then -- as in draw
  return { -5 }
end
local metas, members, others, moment, n = {}, {}, {}, string.format(SHORT_HEAD, now), 0
for i = 1, count do
  local place = reached - count + i
  local order, id, at = string.format('%015d', lifo and 999999999999999 - place or place), ids[i], 3 * i
  metas[2 * i - 1], metas[2 * i] = id, moment .. order .. args[at + 1]
  if group_of[i] == '' then
    members[n + 1], members[n + 2], n = args[at], '1' .. order .. id, n + 2
  else
    local k = #others
    others[k + 1], others[k + 2], others[k + 3] = group_of[i], tonumber(args[at]), '1' .. order .. id
  end
end
redis.call('HSET', meta, unpack(metas))
if n > 0 then
  redis.call('ZADD', ready, unpack(members))
end
if grouped then
  -- Needs: gather
  n = n + gather(others)
end
if n > 0 and not settings[5] then
  redis.call('ZADD', wake, '0', 'w')
elseif n > 0 then
  -- Needs: notice
  rouse(n, settings[5])
end
return { 0 }
