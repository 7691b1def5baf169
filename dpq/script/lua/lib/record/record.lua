-- record: read a task's record as a table, and write it. Layout: docs/storage.md, "The record".
-- A short record (q) has only what most tasks need, in fixed places. Its moment has 11 hex digits, enough until the
-- year 2527. A full record (f) has everything. Before the first delivery, both forms leave out the counts.
-- Needs: layout, order, cost
-- Gives: read(raw), the task, or nil if the text is no record;
--        write(task), the text. In a task, `inline` is a line feed and the payload, or "" if the payload has a field of
--        its own. `options` holds all notes of the task (notes);
--        parts(raw), nil if the text is no record. Else it returns where its letter stands; where it ends, before the
--        line feed of its payload; priority, cost, expires, aging, group; token, attempts, deliveries, deferrals,
--        delivery, again. A number that is wrong or too long would stop a script in its middle: such a text is none.
local function parts(raw)
  local at, kind, token, attempts, deliveries, deferrals, delivery, again = 1, string.byte(raw), '0', '0', '0', '0',
    '-', '0'
  if kind and kind <= 57 then -- a digit
    token, attempts, deliveries, deferrals, delivery, again, at = string.match(raw,
      '^(%d+) (%d+) (%d+) (%d+) (%S) (%d+) ()')
    kind = at and string.byte(raw, at)
  end
  local cost, expires, aging = '1', '0', '0'
  local order, order_end, priority, edge, group, rest
  if kind == SHORT then
    priority, edge, group, rest = string.match(raw,
      '^%x%x%x%x%x%x%x%x%x%x%x%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d* (%-?%d+)()\t([^\t\n]*)()', at + 1)
  elseif kind == 102 then -- f
    order, order_end, priority, cost, expires, aging, edge, group, rest = string.match(raw,
      '^%d+ ()%d+() %d+ (%-?%d[%d.e+-]*) (%d%S*) %d+ (%d+) (%S+)()\t([^\t\n]*)\t[^\t\n]*\t[^\t\n]*\t[^\n]*()', at + 1)
  end
  local number = tonumber(priority or '')
  local rate = aging == '0' and 0 or tonumber(string.match(aging or '', '^(%d[%d.e+-]*)@%d+$') or '')
  if number and number - number == 0 and edge <= 400 and (rest > #raw or string.byte(raw, rest) == 10)
    and #attempts <= 13 and #deliveries <= 13 and #deferrals <= 13 -- so that the next number is written as digits
    and is_cost(cost) and rate and rate <= 1000000
    and (not order or order_end - order == residual_in(raw, order) + 15) then
    return at, rest, priority, cost, expires, aging, group, token, attempts, deliveries, deferrals, delivery, again
  end
end

local function read(raw)
  local task, at, rest = {}, nil, nil
  at, rest, task.priority, task.cost, task.expires, task.aging, task.group, task.token, task.attempts, task.deliveries,
    task.deferrals, task.delivery, task.again = parts(raw)
  if not at then
    return nil
  end
  task.inline = string.sub(raw, rest)
  if string.byte(raw, at) == SHORT then
    task.enqueued, task.order = string.format('%d', tonumber(string.sub(raw, at + 1, at + 11), 16)),
      '1' .. string.sub(raw, at + 12, at + 26)
    task.max = string.match(raw, '^%d+', at + 27) or '10'
    task.wait, task.key, task.reason, task.error, task.options, task.schedule = '0', '', '', '', '', ''
  else
    task.enqueued, task.order, task.max, task.wait, task.key, task.reason, task.error, task.options, task.schedule =
      string.match(raw, '^(%d+) (%d+) (%d+) %S+ %S+ (%d+)[^\t]*\t[^\t]*\t([^\t]*)\t([^\t]*)\t'
        .. '([^\t\n\23-\31]*)([^\t\n]*)([^\n]*)', at + 1)
  end
  return task
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
    return head .. string.format(SHORT_HEAD, task.enqueued) .. string.sub(task.order, 2) .. most .. ' ' .. task.priority
      .. '\t' .. task.group .. task.inline
  end
  return head .. 'f' .. first .. more .. '\t' .. names .. task.inline
end
