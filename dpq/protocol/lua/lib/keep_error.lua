-- keep_error: keep the last errors of a task. They are lines, the newest first: "ms attempt kind TAB worker TAB text
-- TAB frames". The kind is f (fail), b (bury), x (the lease ran out) or d (a 429). If two errors of a kind in a row say
-- the same, the older line has "=" instead of text and frames. Of several 429s in a row only the newest stays. A task
-- with errors has the note FAILURES (notes). docs/storage.md, "Errors".
-- Keys: errors
-- Needs: now, notes, marks
-- Gives: keep_error(id, task, kind, text, source), to be called before the delivery is counted. The source is "worker
--        TAB frames", or "", or nil. The caller writes the record.
local MOST_ERRORS, MOST_TEXT, MOST_FRAMES = 8, 500, 600

local function keep_error(id, task, kind, text, source)
  local note = note_of(task, FAILURES) or ''
  local open = task.delivery == '-' or task.delivery == 'd' -- else the attempt was counted when the lease ended,
    or string.find(note, ' ', 1, true) -- unless lapses are counted apart
  local worker, frames = string.match(source or '', '^([^\t]*)\t?(.*)$')
  local body = string.sub(text, 1, MOST_TEXT) .. '\t' .. string.sub(frames, 1, MOST_FRAMES)
  local lines = { string.format('%s %.0f %s\t%s\t%s', stamp, math.max(task.attempts + (open and 1 or 0), 1), kind,
    string.sub(worker, 1, 100), body) }
  for line in string.gmatch(redis.call('HGET', errors, id) or '', '[^\n]+') do
    local of, said = string.match(line, '^%d+ %d+ (%l)\t[^\t]*()')
    local same = #lines == 1 and of == kind -- the line before
    if same and string.sub(line, said) == '\t' .. body then
      line = string.sub(line, 1, said) .. '='
    end
    if of and #lines < MOST_ERRORS and not (same and kind == 'd') then
      lines[#lines + 1] = line
    end
  end
  redis.call('HSET', errors, id, table.concat(lines, '\n'))
  set_note(task, FAILURES, '1' .. string.sub(note, 2))
end
