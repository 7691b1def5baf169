-- marks: the marks of the notes of a record (notes), and two notes for scripts that read nothing else of it.
-- Gives: OPTIONS, PIN, SPENT, RUNS_AS; of any record PINNED, the member that its push named, and RAN_AS, the one that
--        its newest delivery ran as.
local OPTIONS, PIN, SPENT, RUNS_AS = '\31', '\30', '\29', '\28'
local PINNED, RAN_AS = '^[^\n]*\30([^\t\n\28-\31]*)', '^[^\n]*\28%d+ ([^\t\n]*)'
