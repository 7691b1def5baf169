-- begin: give a task its schedule. In a record it stands behind a TAB: "kind expires_in first period", times in ms. The
-- kind is e(very), with a period in ms, or c(ron), with a line that only clients can read.
-- Needs: now
-- Gives: begin(option, old), for what options of a push say of it: the text to store, the ms until it is first due, and
--        when it expires. If `old` is the same and no delay is given, the task keeps its times, and there is no wait.
--        And expires_at(option), the moment at which a task of one run expires, ms.
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
