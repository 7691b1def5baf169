-- why: read what keeps a task from running.
--
-- Keys: ready delayed invisible waiting groups meta dead conf limits gates tracked batches
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
--
-- Returns {state, until, group, ahead, in group, paused until, held until, pin, batch, text, after, about, more} as
-- texts, or {} if no task has this id.
-- State: "" for none. Until: as in get. Ahead: the ready tasks before it, or before the head of its group. In group:
-- the tasks of its group before it. Paused until: "", "inf" or ms. Held until: when the queue's limit has enough units
-- for it, ms. Pin: the member that its push named. Batch, text: the batch that it waits for (batches). After: the ids
-- that it waits for, each behind a \1. About: when the limits have let the tasks before it start, and then the task,
-- ms; "" if that is never. More: 1 if tasks of other groups, behind their heads, may come before it.
-- Lost reply: safe to send again.

-- Needs: now, record, groups, heads, order, gate, opens, cost, notes, estimate, notice
local task = read(redis.call('HGET', meta, id) or '')
if not task then
  return {}
end
local state, when = '', '0'
for name, set in pairs({ delayed = delayed, invisible = invisible, dead = dead }) do
  local score = redis.call('ZSCORE', set, id)
  if score then
    state, when = name, string.format('%.0f', score)
  end
end
local ahead, before, member = 0, 0, task.order .. id
local paused, about = redis.call('HGET', conf, 'paused_until') or '', 0
local queue, gate, units = gate_of(''), gate_of(task.group), weigh(task.cost) -- without a group, both are the queue's
local from, to = '[' .. task.group .. '\t', '(' .. task.group .. '\n'
if state == '' then
  local _, first, shown = head_of(task.group)
  local place = task.group ~= '' and behind(task.group, score_of(task), member)
  local rank = redis.call('ZRANK', ready, first == member and shown or member)
  if rank and (task.group == '' or first == member) then
    state, ahead = 'ready', rank
  elseif place and redis.call('ZSCORE', waiting, place) then
    state = 'waiting'
    before = redis.call('ZLEXCOUNT', waiting, from, '(' .. place) + (first and 1 or 0)
    ahead = first and redis.call('ZRANK', ready, shown) or 0
  end
  -- Needs: clears
  local all = {} -- some of the tasks before it, then the task, by id
  local function add(set, rank, count)
    for _, each in ipairs(count > 0 and redis.call('ZRANGE', set, rank, rank + math.min(count, 99) - 1) or {}) do
      all[#all + 1] = split(set, each)
    end
  end
  add(ready, 0, ahead)
  local others, is_behind = #all, before > 0 and first
  all[others + 1] = is_behind and id_of(first) or nil
  add(waiting, redis.call('ZLEXCOUNT', waiting, '-', '(' .. task.group .. '\t'), before - (is_behind and 1 or 0))
  all[#all + 1] = id
  local start = math.max(instant, tonumber(paused) or 0, queue.opens, gate.opens)
  about = math.max(clears_at(queue, costs_of(all, queue), ahead + before + 1, start),
    gate ~= queue and clears_at(gate, costs_of({ unpack(all, others + 1) }, gate), before + 1, start) or 0)
end
if queue.rules.units then
  units = estimated(units, gate, queue)
end
local batch = state == 'delayed' and string.match(task.options, FOR_BATCH) or ''
local _, after = string.match(state == 'delayed' and task.options or '', WAITS)
local held = opens_at(queue, units, -score_of(task))
return { state, when, task.group, string.format('%.0f', ahead), string.format('%.0f', before),
  (paused == 'inf' or (tonumber(paused) or 0) > now) and paused or '', string.format('%.0f', held),
  note_of(task, PIN) or '', batch, batch ~= '' and redis.call('HGET', batches, batch) or '', after or '',
  about < UNTIL_OPENED and string.format('%.0f', about) or '',
  redis.call('ZCARD', waiting) > redis.call('ZLEXCOUNT', waiting, from, to) and '1' or '' }
