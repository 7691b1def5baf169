-- score: compute the score of a task in ready: minus its priority, changed by what it has gained by aging.
-- Gives: score_of(task), for a task that was read (record). It also takes any table with aging, enqueued, wait and
--        priority.
local function score_of(task)
  local rate, since = string.match(task.aging, '^(.+)@(%d+)$')
  return (rate and rate * (task.enqueued + task.wait - since) / 1000 or 0) - task.priority
end
