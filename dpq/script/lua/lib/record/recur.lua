-- recur: compute when a recurring task comes back after a run. That is the first time of its schedule (begin) that is
-- later than now and than the due time of this run. For a cron line, the claim has the next times: "token TAB line TAB
-- ms ...".
-- Needs: now
-- Gives: next_due(task, claim), ms. If no such time is known, it returns nil and the ms after which the time must be.
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
