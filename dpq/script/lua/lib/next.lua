-- next: find the next moment at which time alone makes a task ready.
-- Gives: next_event(), ms as a number, or nil.
local function next_event()
  local nearest
  for _, set in ipairs({ delayed, invisible, closed }) do
    local due = tonumber(redis.call('ZRANGE', set, '0', '0', 'WITHSCORES')[2] or '')
    if due and (not nearest or due < nearest) then
      nearest = due
    end
  end
  return nearest
end
