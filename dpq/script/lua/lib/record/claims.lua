-- claims: name the patterns by which an ack reads a record.
-- Gives: SHORT_CLAIM, for a short record: its token, and where the record goes on;
--        PLAIN_CLAIM, for a full record: its token. Both patterns only match tasks without key, schedule, batch
--        and followers that are not to run again;
--        CLAIM, for any record: token, again, key, a TAB if the task recurs, and where the record ends.
local SHORT_CLAIM = '^(%d+) %d+ %d+ %d+ %S 0 q()'
local PLAIN_CLAIM = '^(%d+) %d+ %d+ %d+ %S 0 f[^\t\n]*\t[^\t\n]*\t\t[^\t\n]*\t[^\t\n\25\27]*\n'
local CLAIM = '^(%d+) %d+ %d+ %d+ %S (%d+) [^\t\n]*\t[^\t\n]*\t?([^\t\n]*)\t?[^\t\n]*\t?[^\t\n]*(\t?)[^\n]*()'
