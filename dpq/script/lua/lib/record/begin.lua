-- begin: let a task start over; or give it a schedule, and compute its next time. In a record the schedule stands
-- behind a TAB: "kind expires_in first period", times in ms. The kind is "e" (every), with a period in ms; or "c"
-- (cron), with a line that only clients can read.
-- Needs: now, draw
-- Gives: begin(option, old), for the options of a push. It returns the schedule to store; the ms until the task is
--        first due; and the moment when it expires. If the schedule `old` is the same and no delay is given, the task
--        keeps its times, and the ms are nil;
--        expires_at(option), the moment at which a task without a schedule expires, ms;
--        next_due(task, claim), when a recurring task comes back: the first time of its schedule, ms, that is later
--        than now and than the due time of this run. The claim has those of a cron line: "token TAB line TAB ms ...".
--        If it has no such time, the result is nil and the ms after which the time must be;
--        start_over(task, at), which lets a task be due at a moment, behind all tasks of its priority. It returns the
--        ms from now until then;
--        run_again(task, lapsed), for a run that has died: if its task was pushed again meanwhile (`rerun`), it begins
--        anew, and the ms until then are returned; else nil. Unless its lease lapsed, its token still fences: a
--        repeated call finds its work done, and a late ack finds nothing;
--        renew(task, wait), as if the task had never been popped. It is first due `wait` ms from now.
local function expires_at(option)
  return option.expires_in == 0 and '0' or string.format('%.0f', now + option.expires_in)
end

local function begin(option, old)
  local kind, period = option.cron and 'c' or 'e', option.cron or string.format('%s', option.every)
  local was, since, same = string.match(old or '', '^\t(%l) %d+ (%d+) (.*)$')
  local due = option.cron and math.max(now, option.first) or now + option.delay
  local kept = was == kind and same == period and (option.cron or option.delay == 0)
  due = string.format('%.0f', kept and since or due)
  return string.format('\t%s %s %s %s', kind, option.expires_in, due, period), not kept and due - now or nil,
    option.expires_in == 0 and '0' or string.format('%.0f', due + option.expires_in)
end

local function next_due(task, claim)
  if task.again ~= '0' then -- the task was pushed again, to run once more
    return math.max(task.again, now)
  end
  local kind, first, period = string.match(task.schedule, '^\t(%l) %d+ (%d+) (.*)$')
  local after = math.max(now, task.enqueued + task.wait)
  if kind == 'e' and tonumber(period) then
    return math.max(first + math.floor((after - first) / period + 1) * period, first)
  end
  local line, times = string.match(claim, '^%d+\t([^\t]*)\t(.*)$')
  for at in string.gmatch(line == period and times or '', '%d+') do
    if tonumber(at) > after then
      return tonumber(at)
    end
  end
  return nil, string.format('%.0f', after)
end

local function renew(task, wait)
  task.token, task.attempts, task.deliveries, task.deferrals, task.delivery, task.again = 0, 0, 0, 0, '-', 0
  task.options = string.gsub(task.options, '\24(%d+) %d+', '\24%1 0') -- its lapses
  task.enqueued, task.wait, task.reason, task.error = stamp, wait, '', ''
end

local function start_over(task, at)
  local place = draw(stats, 'pushed', 1) + 1
  local settings = redis.call('HMGET', conf, 'order', 'fairness')
  if settings[2] == 'round_robin' then
    place = draw(conf, 'turns', 1) + 1
  end
  if settings[1] == 'lifo' then
    place = 999999999999999 - place
  end
  task.order = string.sub(task.order, 1, -16) .. string.format('%015.0f', place)
  local expires_in = string.match(task.schedule, '^\t%l (%d+)')
  if expires_in and task.again == '0' then
    task.expires = expires_in == '0' and '0' or string.format('%.0f', at + expires_in)
  end
  renew(task, at - now)
  return at - now
end

local function run_again(task, lapsed)
  if tonumber(task.again) == 0 then
    return nil
  end
  local token, delivery = task.token, task.delivery
  local wait = start_over(task, math.max(task.again, now))
  if not lapsed then
    task.token, task.delivery, task.again = token, delivery, stamp
  end
  return wait
end
