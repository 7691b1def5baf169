-- notes: read and write the notes of a record. They stand behind its last error (task.options). Each note is optional
-- and begins with its mark. The order is: \31 visibility, time limit, trace and backoff; \30 the member that the push
-- pinned; \27 the batch of the task, or \1 and the batch that it waits for; \26 the ms for which its key stays taken
-- after the ack (seen); \24 its max_lapses, and how many of its leases have run out; \25 the tasks that it waits for
-- (followed); \23 how often its host has refused it (refusals); \29 what this delivery has reported of its cost; \28
-- the member that this delivery runs as. The last two begin with the token of a delivery, and count for no other
-- delivery.
-- Layout: docs/storage.md, "The record".
-- Gives: note_of(task, mark), the text of a note, or nil;
--        live_note(task, mark), the text of a note with the live token, without the token, or nil;
--        set_note(task, mark, text), which removes the note if the text is nil;
--        recost(task, cost), which changes the cost. What the newest delivery was charged stays in its note (true_up);
--        OPTIONS, PIN, BATCH, UNIQUE, LAPSES, AFTER, SPENT, RUNS_AS, REFUSED, the marks;
--        UNIQUE_FOR, for any record: the ms for which its key stays taken after the ack;
--        PINNED, for any record: the member that its push named;
--        RAN_AS, for any record: the member that its newest delivery ran as;
--        OF_BATCH, FOR_BATCH, for any record or its notes: the batch of the task; the batch that it waits for;
--        FOLLOWED, WAITS, the same: other tasks wait for it; what becomes of it if one of the tasks dies that it waits
--        for (b or r), and their ids, "\1id\1id" (followed).
local OPTIONS, PIN, BATCH, UNIQUE, LAPSES, AFTER = '\31', '\30', '\27', '\26', '\24', '\25'
local SPENT, RUNS_AS, REFUSED = '\29', '\28', '\23'
local UNIQUE_FOR = '^[^\n]*\26(%d+)'
local PINNED, RAN_AS = '^[^\n]*\30([^\t\n\23-\31]*)', '^[^\n]*\28%d+ ([^\t\n]*)'
local OF_BATCH, FOR_BATCH = '^[^\n]*\27([^\t\n\1\23-\31]+)', '^[^\n]*\27\1([^\t\n\23-\31]+)'
local FOLLOWED, WAITS = '^[^\n]*\25%+', '^[^\n]*\25%+?([br])([^\t\n\23-\31]+)'

local function note_of(task, mark)
  return string.match(task.options, mark .. '([^\23-\31]*)')
end

local function live_note(task, mark)
  local token, text = string.match(note_of(task, mark) or '', '^(%d+) (.*)$')
  return token == task.token and text or nil
end

local function set_note(task, mark, text)
  local notes = ''
  for _, each in ipairs({ OPTIONS, PIN, BATCH, UNIQUE, LAPSES, AFTER, REFUSED, SPENT, RUNS_AS }) do
    local said = note_of(task, each)
    if each == mark then
      said = text
    end
    notes = notes .. (said and each .. said or '')
  end
  task.options = notes
end

local function recost(task, cost)
  if cost ~= task.cost and task.token ~= '0' then
    local report, charged = string.match(live_note(task, SPENT) or '', '^(%S*) ?(%S*)$')
    charged = (charged or '') ~= '' and charged or task.cost
    set_note(task, SPENT, string.format('%s %s %s', task.token, report or '', charged))
  end
  task.cost = cost
end
