-- update: change a live task in place. If the task is running, only its priority and its cost can change.
--
-- Keys: ready delayed invisible waiting groups closed meta dead keys conf wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  priority   as text, or "" to keep it
-- ARGV[4]  residual   what the double of the priority lost
-- ARGV[5]  wait       ms from now until the task is ready, or "" to keep that moment; if the task recurs by `every`,
--                     its times count from this moment
-- ARGV[6]  key        the task's unique key, instead of the id; or ""
-- ARGV[7]  cost       units of every limit, or "" to keep them; if the task is running, for its next run
--
-- Returns 1; -2 if no live task has this id or key; -6 if the task is running and a delay was given (nothing changed).
-- Lost reply: safe to send again; a delay then counts from the second call.

-- Needs: now, go_on, record, place, revise, begin, refusal, notes, producers
local refused = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
end
id = key ~= '' and redis.call('HGET', keys, key) or id
local task = read(redis.call('HGET', meta, id) or '')
if not task or redis.call('ZSCORE', dead, id) then
  return -2
elseif wait ~= '' and redis.call('ZSCORE', invisible, id) then
  return -6
end
local kind, expires_in, period = string.match(wait ~= '' and task.schedule or '', '^\t(%l) (%d+) %d+ (.*)$')
go_on()
if kind then
  local cron = kind == 'c' and period
  local option = { cron = cron, every = period, first = now + wait, delay = wait, expires_in = tonumber(expires_in) }
  task.schedule, kind, task.expires = begin(option)
end
if cost ~= '' then
  recost(task, cost)
  if cost ~= '1' then
    redis.call('HSET', conf, 'heavy', '1')
  end
end
revise(id, task, priority, residual, wait ~= '' and wait)
admit()
call_producers(task.group) -- a delay makes room in its group
return 1
