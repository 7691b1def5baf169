-- rate_limited: give a task back after a 429, and close its group, or the whole queue, for all consumers. The attempt
-- does not count, and the task keeps its place. The first task after the closing is a probe. A task that was refused as
-- a probe twice in a row lets others go first (refusals). If others pass, and it is refused as a probe five times in a
-- row, it becomes a dead letter, unless it recurs, or is to run once more.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked events batches followers cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  ms         number: from now until the host may be asked again; below 0 if the host has named no time: -ms
--                     for the first closing, twice as long for each closing in a row, and 300 s at most
-- ARGV[5]  scope      the scope to close: group, queue, member (the member of a pool that the task runs as) or task
--                     (no scope: only this task waits). If the task has no member, its group closes; if it has no
--                     group, the queue
-- ARGV[6]  report     the units that the delivery has spent, as in spent; "" for none; or left out
-- ARGV[7]  status     of the answer, three digits, if it was not 429, else ""; or left out
-- ARGV[8]  text       of the answer, a single line, for the last error of a dead letter; or left out
--
-- Returns 1; 2 if the task has become a dead letter; or -1 or -13 as fence does, and nothing has changed. A longer
-- closing stays. After the closing, the windows grant one unit and then go at their pace (met). The request stays
-- spent; other units that `report` does not name count as not spent.
-- Lost reply: safe to send again. The time then counts from the second call; the deferral and the refusal count once.
-- If the task has become a dead letter, the second answer is 2, too.

local STATUSES = { ['403'] = 'rate_limited_403', ['503'] = 'rate_limited_503', ['529'] = 'rate_limited_529' }

-- Needs: now, record, fence, gate, place, met, notes, event, refusals
local task, refused = fence(id, token, 'l')
if not task then
  return refused == 0 and 2 or refused
end
report, status = report ~= '' and report, status ~= '' and status
if report or string.find(task.cost .. task.options, '[,' .. SPENT .. ']') then
  -- Needs: true_up
  local reported = true_up(task, report or '')
  report = true_up(task, nothing_of(reserved_of(task)), true) or reported
end
local runs_as = live_note(task, RUNS_AS)
local member = scope == 'member' and runs_as
local closes = scope == 'queue' and '' or task.group
local gate = scope ~= 'task' and gate_of(member and closes .. '\t' .. member or closes)
local was_probe = gate and gate.probe == id
leave(id, task, true) -- a probe that meets a 429 opens nothing
local others = gate and others_wait(gate, task.group)
if gate and task.delivery == '-' then
  count_refusal(task, was_probe, others)
end
local first = count_deferral(task)
if first then
  redis.pcall('HINCRBY', stats, 'rate_limited', 1)
  if status then
    redis.pcall('HINCRBY', stats, STATUSES[status] or 'rate_limited_other', 1)
  end
  for _, home in ipairs({ task.group, runs_as and task.group .. '\t' .. runs_as }) do
    home = gate_of(home)
    if home.rules.own then
      home.met, home.changed = home.met + 1, true
    end
  end
end
local alone = gate and refused_alone(task) or 0
local ends = alone >= MOST_REFUSALS and task.schedule == '' and task.again == '0'
if not ends and (first or report) then
  redis.call('HSET', meta, id, write(task))
end
if gate then
  ms = meet(gate, ms, token / 1000, first, was_probe, status, id)
  ms = alone > 1 and (others or alone > 2) and ms + math.min(math.max(2 * ms, 1000), 60000) or 0
elseif first then
  ms = math.abs(ms)
  tell('rate_limited', task.group, '', id, named(status, string.format('%.0f ms, this task alone', ms)))
end
if ends then
  -- Needs: bury, producers
  task.delivery, task.error = 'l', text or 'HTTP ' .. (status or '429')
  set_note(task, REFUSED)
  bury(id, task, 'always rate limited')
  admit()
  call_all({ [''] = true, [task.group] = true })
  return 2
end
put_back(id, task, ms)
admit()
return 1
