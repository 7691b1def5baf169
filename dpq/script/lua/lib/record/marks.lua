-- marks: name the marks of the notes of a record (notes), and the patterns of some notes for scripts that read no other
-- note.
-- Gives: OPTIONS, PIN, BATCH, UNIQUE, LAPSES, AFTER, SPENT, RUNS_AS, REFUSED, the marks;
--        UNIQUE_FOR, for any record: the ms for which its key stays taken after the ack;
--        PINNED, for any record: the member that its push named;
--        RAN_AS, for any record: the member that its newest delivery ran as;
--        FOLLOWED, WAITS, for any record: other tasks wait for it; it waits for other tasks (followed).
local OPTIONS, PIN, BATCH, UNIQUE, LAPSES, AFTER = '\31', '\30', '\27', '\26', '\24', '\25'
local SPENT, RUNS_AS, REFUSED = '\29', '\28', '\23'
local UNIQUE_FOR = '^[^\n]*\26(%d+)'
local PINNED, RAN_AS = '^[^\n]*\30([^\t\n\23-\31]*)', '^[^\n]*\28%d+ ([^\t\n]*)'
local FOLLOWED, WAITS = '^[^\n]*\25%+', '^[^\n]*\25%+?([br])([^\t\n\23-\31]+)'
