-- begin: give a task its schedule. In a record the schedule stands behind a TAB: "kind expires_in first period", times
-- in ms. The kind is "e" (every), with a period in ms; or "c" (cron), with a line that only clients can read.
-- Needs: now
-- Gives: begin(option, old), for the options of a push. It returns the schedule to store; the ms until the task is
--        first due; and the moment when it expires. If the schedule `old` is the same and no delay is given, the task
--        keeps its times, and the ms are nil;
--        expires_at(option), the moment at which a task without a schedule expires, ms.
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
