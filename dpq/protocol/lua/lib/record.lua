-- record: read a task's record as a table (nil if it is no record), and write it. Layout: docs/design.md, "The record".
-- A text with a wrong or too long number is no record: the number would stop a script in its middle, or its reader.
-- Gives: read(raw), write(task).
local function read(raw)
  local task, edge = {}, nil
  task.token, task.attempts, task.deliveries, task.deferrals, task.delivery, task.again, task.max,
    task.cost, task.wait, task.priority, task.enqueued, task.expires, task.aging, task.order, edge,
    task.group, task.key, task.reason, task.error, task.options, task.schedule = string.match(raw,
    '^(%d+) (%d+) (%d+) (%d+) (%S) (%d+) (%d+) (%d+) (%d+) (%-?%d[%d.e+-]*) (%d+) (%d+) (%S+) (%d+)()\t'
    .. '([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t\31]*)([^\t]*)(.*)$')
  local priority = tonumber(task.priority or '')
  local rate = task.aging == '0' and 0 or tonumber(string.match(task.aging or '', '^(%d[%d.e+-]*)@%d+$') or '')
  local sound = priority and priority - priority == 0 and edge <= 256 and #task.attempts <= 13
    and #task.deliveries <= 13 and #task.deferrals <= 13 -- so that the next number is written as digits
    and #task.order == (string.byte(task.order) == 49 and 16 or 19) and rate and rate <= 1000000
  return sound and task or nil
end

local function write(task)
  return table.concat({ task.token, task.attempts, task.deliveries, task.deferrals, task.delivery,
    task.again, task.max, task.cost, task.wait, task.priority, task.enqueued, task.expires, task.aging,
    task.order }, ' ')
    .. '\t' .. table.concat({ task.group, task.key, task.reason, task.error }, '\t') .. task.options
    .. task.schedule
end
