-- push: add tasks, ready or delayed. It adds all of them or none.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked batches followers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..]           a task: id, spec, payload. The spec of a plain task is its score, and before its payload stands
--                     "max priority TAB group LF", without the max if it is 10. The spec of any other task is its
--                     options as a JSON object: {"priority":"5","key":"a","delay":2000} (options). Without a task the
--                     call only reads the time
--
-- Returns {status, index, holder, ...}. Each index is the number of a task that met a holder of its key; the holder's
-- id follows. The statuses; all but 0 change nothing:
-- * 0: done.
-- * 1: the queue does not exist: configure it and push again.
-- * 2: the time follows, ms.
-- * {-15, size, bound, group, new tasks}: a bound leaves no room for them: of the group, or, if it is "", of the queue.
-- * -10: the batch of a task is finished: the number of that task and the name of the batch follow.
-- * -11: task `index` is to wait for the task with the id that follows, which recurs: it never ends. -12: that task is
--   the same task, or a later one of this push.
-- * -3: the key is taken, and on_duplicate is "error". -4: the key's holder is in another group.
-- Lost reply: safe to send again while the first copy is stored: an id that is stored is not added twice. A repeated
-- update sets the same values again; a repeated rerun may run the task once more.

-- Needs: now
if #args == 1 then
  return { 2, stamp }
end
-- Needs: refusal
local ids, group_of, options, others_too, tied, surplus = {}, {}, {}, false, false, nil
for i = 2, #args, 3 do
  ids[#ids + 1] = args[i]
  if string.byte(args[i + 1]) == 123 then -- "{": options
    others_too = true
  else
    group_of[#ids] = string.match(args[i + 2], '\t([^\n]*)')
  end
end
if others_too then
  -- Needs: options
  options, tied = read_options(args)
end
local settings = redis.call('HMGET', conf, 'format', 'order', 'aging', 'aging_since', 'fairness', 'shut_until',
  'bounded', 'payloads')
local refused = not settings[1] and { 1 } or refusal(settings[1])
if refused then
  return refused
end
if settings[2] == 'min' then
  -- Needs: rank
  turn_all(args, options)
end
local holders, claims, fresh, keyed, met = {}, nil, 0, false, 0
local known = redis.call('HMGET', meta, unpack(ids))
if tied then
  -- Needs: tied
  refused = late_for_batch(ids, options, known)
end
for i = 1, #ids do
  if not known[i] then
    fresh = fresh + 1
    keyed = keyed or options[i] and options[i].key ~= ''
  end
end
if keyed then
  -- Needs: claim
  holders, claims, met, refused = claim_keys(ids, options, known, refused)
end
if tied then
  refused = refused or find_waits(ids, options, known, holders)
end
fresh = fresh - met
if settings[7] and fresh > 0 and not refused then
  -- Needs: admission
  refused, surplus = no_room(ids, known, holders, options, group_of, fresh)
end
if refused then
  return refused
end

local plain, delays, others, reply = {}, {}, {}, { 0 }
local batch = { metas = {}, payloads = {}, plain = plain, delays = delays, others = others, setting = settings[8] }
if fresh > 0 then
  -- Needs: draw, fresh
  local lifo, place = settings[2] == 'lifo', draw(stats, 'pushed', fresh)
  batch.aging = aging_of(settings[3], settings[4])
  if settings[5] == 'round_robin' then
    place = draw(conf, 'turns', fresh)
  end
  for i, id in ipairs(ids) do
    if not known[i] and not holders[i] then
      place = place + 1
      add(id, options[i] or args[3 * i], args[3 * i + 1], lifo and 999999999999999 - place or place, group_of[i],
        batch)
    end
  end
  store(batch)
end
if tied then
  join_batches(ids, options, known, holders)
end

for key, made in pairs(keyed and claims or {}) do
  redis.call('HSET', keys, key, made.id)
end
local led, left = 0, false
if others[1] then
  -- Needs: gather, groups, open_or_close
  local shut_groups
  led, shut_groups = gather(others, (settings[5] or 'none') ~= 'none' and lead_anew)
  for _, group in ipairs(shut_groups and heavy() and shut_groups or {}) do
    stirred[group], left = true, true -- a new task may run before those that wait already
  end
end
if #delays > 0 then
  redis.call('ZADD', delayed, unpack(delays))
  notice(redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2] - now)
end
if left then
  -- Needs: place
  admit()
end
if met > 0 then
  -- Needs: merge
  merge_all(args, options, holders, reply)
end
if tied then
  link(ids, options)
end
if surplus then
  drop_worst(surplus)
end
-- Needs: notice
rouse(#plain + led, settings[6])
return reply
