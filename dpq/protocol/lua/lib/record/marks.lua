-- marks: name the marks of the notes of a record (notes), and the patterns of two notes for scripts that read no other
-- note.
-- Gives: OPTIONS, PIN, BATCH, FAILURES, SPENT, RUNS_AS, the marks;
--        PINNED, for any record: the member that its push named;
--        RAN_AS, for any record: the member that its newest delivery ran as.
local OPTIONS, PIN, BATCH, FAILURES, SPENT, RUNS_AS = '\31', '\30', '\27', '\24', '\29', '\28'
local PINNED, RAN_AS = '^[^\n]*\30([^\t\n\24-\31]*)', '^[^\n]*\28%d+ ([^\t\n]*)'
