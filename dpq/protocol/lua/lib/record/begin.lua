-- begin: give a task its schedule: "kind expires_in first period", times in ms. The kind is e(very), with a period in
-- ms, or c(ron), with a line that only clients can read. In a record a TAB stands before it.
-- Needs: now
-- Gives: begin(text, wait, old), which returns the text to store, the ms until it is first due, and when it expires.
--        If `old` is the same and no delay is given, the task keeps its times, and there is no wait.
local function begin(text, wait, old)
  local kind, expires_in, first, period = string.match(text, '^(%l) (%d+) (%d+) (.*)$')
  local was, since, same = string.match(old or '', '^\t(%l) %d+ (%d+) (.*)$')
  local due = kind == 'c' and math.max(now, first) or now + wait
  local kept = was == kind and same == period and (kind == 'c' or tonumber(wait) == 0)
  due = string.format('%.0f', kept and since or due)
  return string.format('\t%s %s %s %s', kind, expires_in, due, period), not kept and due - now or nil,
    expires_in == '0' and '0' or string.format('%.0f', due + expires_in)
end
