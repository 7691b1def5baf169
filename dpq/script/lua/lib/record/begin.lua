-- begin: give a task its schedule, and compute its next time. In a record the schedule stands behind a TAB: "kind
-- expires_in first period", times in ms. The kind is "e" (every), with a period in ms; or "c" (cron), with a line that
-- only clients can read.
-- Needs: now
-- Gives: begin(option, old), for the options of a push. It returns the schedule to store; the ms until the task is
--        first due; and the moment when it expires. If the schedule `old` is the same and no delay is given, the task
--        keeps its times, and the ms are nil;
--        expires_at(option), the moment at which a task without a schedule expires, ms;
--        next_due(task, claim), when a recurring task comes back: the first time of its schedule, ms, that is later
--        than now and than the due time of this run. The claim has those of a cron line: "token TAB line TAB ms ...".
--        If it has no such time, the result is nil and the ms after which the time must be.
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
