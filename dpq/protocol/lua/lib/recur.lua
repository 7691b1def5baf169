-- recur: when a task comes back whose run has ended: the first time of its schedule (begin) that is later than now
-- and than this run was due. Of a cron line the claim says the next times: "token TAB line TAB ms ms ...".
-- Needs: now
-- Gives: next_due(task, claim), ms; or nil, and after when it must be, when no such time is known.
local function next_due(task, claim)
  if task.again ~= '0' then -- asked to run once more
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
