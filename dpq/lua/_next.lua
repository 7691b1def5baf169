-- _next: the nearest moment at which time alone makes a task ready.
-- Wants: now, delayed, invisible, closed.
-- Gives: next_event(), ms from now (0 when it is past), or -1 when nothing is to come.
local function next_event()
  local nearest = -1
  for _, set in ipairs({ delayed, invisible, closed }) do
    local due = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
    if due then
      local wait = math.max(due - now, 0)
      if nearest < 0 or wait < nearest then
        nearest = wait
      end
    end
  end
  return nearest
end
