-- score: compute the score of a task in ready: minus its priority, and what it has gained by aging.
-- Gives: score_of(task), for a record; of another table it reads aging, enqueued, wait and priority.
local function score_of(task)
  local rate, since = string.match(task.aging, '^(.+)@(%d+)$')
  return (rate and rate * (task.enqueued + task.wait - since) / 1000 or 0) - task.priority
end
