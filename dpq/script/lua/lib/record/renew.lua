-- renew: reset a task, as if it had never been popped.
-- Needs: now
-- Gives: renew(task, wait). The task is first due `wait` ms from now.
local function renew(task, wait)
  task.token, task.attempts, task.deliveries, task.deferrals, task.delivery, task.again = 0, 0, 0, 0, '-', 0
  task.options = string.gsub(task.options, '\24(%d+) %d+', '\24%1 0') -- its lapses
  task.enqueued, task.wait, task.reason, task.error = stamp, wait, '', ''
end
