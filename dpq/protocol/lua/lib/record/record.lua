-- record: read a task's record as a table (nil if it is none), and write it. Layout: docs/storage.md, "The record".
-- A text with a wrong or too long number is no record: the number would stop a script in its middle, or its reader.
-- A short record (q) has only what most tasks need, in fixed places, the moment in 11 hex digits, which is enough until
-- the year 2527. A full one (f) has all. Before the first delivery the counts are left out.
-- Needs: cost
-- Gives: read(raw), write(task). In a task, `inline` is a line feed and the payload; "" if the payload has a field
--        of its own. `options` are all its notes (notes).
local SHORT = '^' .. string.rep('%x', 11) .. '()' .. string.rep('%d', 15) .. '()(%d*) (%-?%d+)()\t([^\t\n]*)()'

local function read_short(task, raw, at)
  local placed, ends, edge, rest
  placed, ends, task.max, task.priority, edge, task.group, rest = string.match(raw, SHORT, at)
  if placed then
    task.enqueued = string.format('%d', tonumber(string.sub(raw, at, placed - 1), 16))
    task.order = '1' .. string.sub(raw, placed, ends - 1)
    task.max = task.max == '' and '10' or task.max
  end
  return edge, rest
end

local function read(raw)
  local task = { token = '0', attempts = '0', deliveries = '0', deferrals = '0', delivery = '-', again = '0',
    cost = '1', wait = '0', expires = '0', aging = '0', key = '', reason = '', error = '', options = '',
    schedule = '' }
  local at, kind, edge, rest = 1, string.byte(raw), nil, nil
  if kind and kind <= 57 then
    task.token, task.attempts, task.deliveries, task.deferrals, task.delivery, task.again, at = string.match(raw,
      '^(%d+) (%d+) (%d+) (%d+) (%S) (%d+) ()')
    kind = at and string.byte(raw, at)
  end
  if kind == 113 then
    edge, rest = read_short(task, raw, at + 1)
  elseif kind == 102 then
    task.enqueued, task.order, task.max, task.priority, task.cost, task.wait, task.expires, task.aging, edge,
      task.group, task.key, task.reason, task.error, task.options, task.schedule, rest = string.match(raw,
      '^(%d+) (%d+) (%d+) (%-?%d[%d.e+-]*) (%d%S*) (%d+) (%d+) (%S+)()\t'
      .. '([^\t\n]*)\t([^\t\n]*)\t([^\t\n]*)\t([^\t\n\28-\31]*)([^\t\n]*)([^\n]*)()', at + 1)
  end
  local priority = edge and tonumber(task.priority)
  local rate = edge and (task.aging == '0' and 0 or tonumber(string.match(task.aging, '^(%d[%d.e+-]*)@%d+$') or ''))
  local sound = priority and priority - priority == 0 and edge <= 400 and is_cost(task.cost)
    and #task.attempts <= 13
    and #task.deliveries <= 13 and #task.deferrals <= 13 -- so that the next number is written as digits
    and #task.order == (string.byte(task.order) == 49 and 16 or 19) and rate and rate <= 1000000
    and (rest > #raw or string.byte(raw, rest) == 10)
  if sound then
    task.inline = string.sub(raw, rest)
  end
  return sound and task or nil
end

local function write(task)
  local head = table.concat({ task.token, task.attempts, task.deliveries, task.deferrals, task.delivery, task.again,
    '' }, ' ')
  local names = table.concat({ task.group, task.key, task.reason, task.error }, '\t') .. task.options .. task.schedule
  local first = table.concat({ task.enqueued, task.order, task.max, task.priority }, ' ')
  local more = table.concat({ '', task.cost, task.wait, task.expires, task.aging }, ' ')
  head = head == '0 0 0 0 - 0 ' and '' or head
  if more == ' 1 0 0 0' and names == task.group .. '\t\t\t' and string.find(task.priority, '^%-?%d+$')
    and tonumber(task.enqueued) < 2 ^ 44 and #task.order == 16 then
    local most = task.max == '10' and '' or task.max
    return head .. string.format('q%011x', task.enqueued) .. string.sub(task.order, 2) .. most .. ' ' .. task.priority
      .. '\t' .. task.group .. task.inline
  end
  return head .. 'f' .. first .. more .. '\t' .. names .. task.inline
end
