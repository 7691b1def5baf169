-- _record: a task's record as a table (nil when it is no record), and back. Layout: docs/design.md, "The record".
-- What is no number would stop a script in its middle: it is no record.
local function read(raw)
  local task = {}
  task.token, task.attempts, task.deliveries, task.deferrals, task.delivery, task.again, task.max,
    task.cost, task.wait, task.priority, task.enqueued, task.expires, task.aging, task.order,
    task.group, task.key, task.reason, task.error, task.schedule = string.match(raw,
    '^(%d+) (%d+) (%d+) (%d+) (%S) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%S+) (%d+)\t'
    .. '([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)(.*)$')
  local priority, rate = tonumber(task.priority or ''), string.match(task.aging or '', '^(%S+)@%d+$')
  rate = tonumber(rate or task.aging or '')
  local sound = priority and rate and math.abs(priority) < math.huge and math.abs(rate) < math.huge
  return sound and #task.order > 15 and task or nil
end
local function write(task)
  return table.concat({ task.token, task.attempts, task.deliveries, task.deferrals, task.delivery,
    task.again, task.max, task.cost, task.wait, task.priority, task.enqueued, task.expires, task.aging,
    task.order }, ' ')
    .. '\t' .. table.concat({ task.group, task.key, task.reason, task.error }, '\t') .. task.schedule
end
