-- import: add tasks of an export, each with all that was stored of it. It adds all of them or none.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked events changes batches followers recent
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  export     the id of the export
-- ARGV[3]  last       number: the number of the last line of this call; 0 forgets which lines were added before
-- ARGV[4]  highest    number: the highest sequence number of these tasks: later pushes get higher ones
-- ARGV[5]  lenient    "1": a task that meets another task under its id or key is left out; "": the call is refused
-- ARGV[6]  told       the tasks that the whole import has added, for the event; "" if a later call tells of this one
-- ARGV[7..]            line, state, id, when, record, payload: the number of the line; ready, delayed, held
--                     (delayed, and it holds its group in order) or dead; the moment in delayed or dead, ms. A gate has
--                     the state "gate", its scope as its id ("" for the queue) and its text as its record: it is stored
--                     if the scope has none. So has a batch, with its name: it is stored if the name is free. So has a
--                     seen key, with the key, and its text as `keys` has it: it is stored if the key is free. With
--                     "ahead", the task of this id lets those run that wait for its end; they run now if it is not
--                     stored. With "sealed", the task whose id is the record waits for the batch of this name; it runs
--                     now if nothing is left of the batch
--
-- Returns {0, added, met}: how many tasks it added, and how many were stored before. A line up to the last one that
-- the queue has noted for this export counts as neither: it was added before, and its task may have ended since. If the
-- queue has noted a later line, it keeps it. Refusals, which change nothing:
-- * 1: the queue does not exist.
-- * {-3, line, holder}: another task has the key. {-4, line, id}: the id is that of a task of another group or key.
-- Lost reply: safe to send again; nothing is added twice, but then the tasks are not counted as added.

-- Needs: now, refusal, record, rank, body, place, counted, notice, event, notes, followed, others
local settings = redis.call('HMGET', conf, 'format', 'fairness', 'payloads', 'imported', 'order')
local refused = not settings[1] and { 1 } or refusal(settings[1])
if refused then
  return refused
end
local noted, upto = string.match(settings[4] or '', '^(%S+) (%d+)$')
upto = noted == export and tonumber(upto) or 0

local fresh, claimed, met, others = {}, {}, 0, {
  gate = true, batch = true, seen = true, ahead = true, sealed = true }
for i = 7, #args, 6 do
  local line, state, id, raw = args[i], args[i + 1], args[i + 2], args[i + 4]
  if tonumber(line) > upto and others[state] then
    fresh[#fresh + 1] = { at = i }
  elseif tonumber(line) > upto then
    local task = read(raw)
    if not task then
      return redis.error_reply('ERR DPQ: line ' .. line .. ' is no record')
    end
    local there = claimed[id] or redis.call('HGET', meta, id)
    local known = there and (claimed[id] or read(there))
    local holder = not there and task.key ~= '' and (claimed[task.key .. '\t'] or key_holder(task.key))
    local code = there and known and (known.group ~= task.group or known.key ~= task.key) and -4 or holder and -3
    if code and lenient == '' then
      return { code, line, holder or id }
    elseif there or holder then
      met = met + 1
    else
      claimed[id], fresh[#fresh + 1] = task, { at = i, task = task }
      if settings[5] == 'min' then
        local priority, residual = turned(task.priority, string.sub(task.order, 1, -16))
        task.priority, task.order = priority, residual .. string.sub(task.order, -15)
      end
      if task.key ~= '' then
        claimed[task.key .. '\t'] = id
      end
    end
  end
end

local added, heavy_too = 0, false
for _, each in ipairs(fresh) do
  local task, state, id, when, raw, text = each.task, unpack(args, each.at + 1, each.at + 5)
  if not task then
    add_other(state, id, raw)
  else
    task.inline = inline(text, settings[4])
    redis.call('HSET', meta, id, write(task))
    if task.inline == '' then
      redis.call('HSET', payload, id, text)
    end
    if task.key ~= '' then
      redis.call('HSET', keys, task.key, id)
    end
    heavy_too = heavy_too or task.cost ~= '1' or string.find(task.options, PIN, 1, true)
    if state == 'ready' then
      enter(id, task)
    elseif state == 'dead' then
      redis.call('ZADD', dead, when, id)
    else
      redis.call('ZADD', delayed, when, id)
      notice(tonumber(when) - now)
      follow_again(id, task.options)
    end
    if state == 'held' then hold(id, task) end
    added = added + 1
  end
end
if heavy_too then
  redis.call('HSET', conf, 'heavy', '1')
end
if added > 0 then -- every queue with tasks has `pushed`
  local counted = settings[2] ~= 'round_robin'
  local pushed = redis.call('HINCRBY', stats, 'pushed', '0')
  local reached = tonumber(counted and pushed or redis.call('HGET', conf, 'turns') or '0') or 0
  if highest > reached then
    redis.call('HSET', counted and stats or conf, counted and 'pushed' or 'turns', string.format('%.0f', highest))
    if counted then -- `pushed` counts these as well (tally)
      redis.call('HINCRBY', stats, 'skipped', string.format('%.0f', highest - reached))
    end
  end
end
if last == 0 then
  redis.call('HDEL', conf, 'imported')
elseif last > upto then
  redis.call('HSET', conf, 'imported', string.format('%s %.0f', export, last))
end
if told ~= '' then
  tell_change('by_hand', '', 'imported ' .. told)
end
admit()
return { 0, added, met }
