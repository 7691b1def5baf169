-- _record: a task's record as a table (nil when it is no record), and back. Layout: docs/design.md, "The record".
local function read(raw)
  local task = {}
  task.token, task.attempts, task.deliveries, task.deferrals, task.delivery, task.again, task.max,
    task.cost, task.wait, task.priority, task.enqueued, task.expires, task.aging, task.order,
    task.group, task.key, task.reason, task.error, task.schedule = string.match(raw,
    '^(%d+) (%d+) (%d+) (%d+) (%S) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%S+) (%d+)\t'
    .. '([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)(.*)$')
  return task.error and task
end
local function write(task)
  return table.concat({ task.token, task.attempts, task.deliveries, task.deferrals, task.delivery,
    task.again, task.max, task.cost, task.wait, task.priority, task.enqueued, task.expires, task.aging,
    task.order }, ' ')
    .. '\t' .. table.concat({ task.group, task.key, task.reason, task.error }, '\t') .. task.schedule
end
