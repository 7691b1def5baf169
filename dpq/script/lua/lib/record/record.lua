-- record: read a task's record as a table, and write it. Layout: docs/storage.md, "The record".
-- A short record (q) has only what most tasks need, in fixed places. Its moment has 11 hex digits, enough until the
-- year 2527. A full record (f) has everything. Before the first delivery, both forms leave out the counts.
-- Needs: parts, layout
-- Gives: read(raw), the task, or nil if the text is no record;
--        write(task), the text. In a task, `inline` is a line feed and the payload, or "" if the payload has a field of
--        its own. `options` holds all notes of the task (notes).
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
