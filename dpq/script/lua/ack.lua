-- ack: remove finished tasks, in any state, while their token is live.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked batches followers results recent
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..]            a task: id, token, ...; each task once. For a cron task, "token TAB line TAB ms ms ..." stands
--                     instead, with the times at which the task may come back. Behind either may stand a group
--                     separator (29) and the units that the task has spent, as in spent
-- ARGV[last] results   only if tasks have some: for each task its line, "ms to keep JSON" or ""; each line ends with a
--                     line feed
--
-- Returns {} if this call finished all tasks; else {index, code, ...} for the tasks that it did not finish. Codes:
-- * 0: the task was gone already (a retried ack).
-- * -1: another delivery has the task, or its record cannot be read.
-- * "ms TAB schedule": none of the times that came with this cron task is later than `ms`. Nothing changed for it.
-- A recurring task comes back as a new task. So does a task that was pushed again with `rerun` while it ran.
-- A result is kept in the same step.
-- Lost reply: the second call finds the tasks gone or begun anew, and answers 0 for them. Their results are kept.

local awaited = redis.call('EXISTS', tracked) == 1 -- first: without the right, a call fails before it writes
-- Without memory, or without the right, a call with results fails before it writes.
local told = #args % 2 == 0 and redis.call('HSET', results, '', redis.call('HGET', results, '') or '') and args[#args]
local vacated, ids, reply, gone, gone_at, again = { [''] = true }, {}, {}, {}, {}, {}
for i = 2, #args - 1, 2 do ids[i / 2] = args[i] end
local raws, apart, reports, noted, keyed = redis.call('HMGET', meta, unpack(ids)), false, nil, nil, {}
-- Needs: now, times, layout, notes
for i, id in ipairs(ids) do
  local raw, claim, rerun, key, recurs, rest = raws[i] or '', args[2 * i + 1], nil, nil, nil, nil
  local token, at = string.match(raw, SHORT_CLAIM)
  token = at and string.find(raw, '\n', at, true) and token or string.match(raw, PLAIN_CLAIM)
  if not token then
    token, rerun, key, recurs, rest = string.match(raw, CLAIM)
  end
  if token ~= claim and token ~= string.match(claim, '^%d+') or token == '0' then
    reply[#reply + 1], reply[#reply + 2] = i, (not token or token == '0') and 0 or -1
  else
    if token ~= claim then
      reports = reports or {}
      reports[id] = string.match(claim, SPENT .. '(.*)$')
    end
    noted = noted or rest and (key ~= '' or string.find(raw, '[\25\27]'))
    if rest and (rerun ~= '0' or recurs ~= '') then
      again[#again + 1] = i
    else
      gone[#gone + 1], gone_at[#gone + 1] = id, i
      count_time(string.sub(token, 1, -3), 10)
      apart = apart or rest and rest > #raw
      keyed[#keyed + 1] = rest and key ~= '' and { key, id, raw } or nil
    end
  end
end

local strays = #gone > 0 and redis.call('ZREM', invisible, unpack(gone)) < #gone
if noted then
  -- Needs: finished, seen
  finish_keys(keyed)
  count_finished(ids, gone_at, again, raws)
end
if strays or awaited or #again > 0 or reports then
  -- Needs: record, ended, place, begin
  local settle, over = nil, {}
  if reports then
    -- Needs: true_up
    settle = true_up
    for n, id in ipairs(gone) do
      local task = reports[id] and read(raws[gone_at[n]])
      if task then true_up(task, reports[id]) end
    end
  end
  for n, id in ipairs(gone) do
    local raw = raws[gone_at[n]]
    if awaited then
      add_ended(over, id, raw)
    end
    if strays then
      leave(id, read(raw) or { order = '', group = '', aging = '0', priority = 0 })
      vacated[string.match(raw, GROUP) or ''] = true
    end
  end
  ended(over)
  for _, i in ipairs(again) do
    local id, task, at, after = ids[i], read(redis.call('HGET', meta, ids[i])), nil, nil
    if task then
      at, after = next_due(task, args[2 * i + 1])
    end
    if not task or task.token == '0' or task.deliveries == '0' then
      -- Its record cannot be read: the task dies when its lease ends. Or it has failed for good.
      reply[#reply + 1], reply[#reply + 2] = i, task and 0 or -1
    elseif not at then
      reply[#reply + 1], reply[#reply + 2] = i, after .. task.schedule
    else
      if reports and reports[id] then
        settle(task, reports[id])
      end
      leave(id, task)
      count_time(task.token, 1000)
      local wait = start_over(task, at)
      redis.call('HSET', meta, id, write(task))
      put_back(id, task, wait, true)
    end
  end
  admit()
end
if #gone > 0 then
  if apart then
    redis.call('HDEL', payload, unpack(gone))
  end
  redis.call('HDEL', meta, unpack(gone))
end
store_times('r')
if awaited then
  -- Needs: producers
  call_all(vacated)
end
if told then
  -- Needs: keep_results
  keep_results(ids, told, reply, time)
end
return reply
