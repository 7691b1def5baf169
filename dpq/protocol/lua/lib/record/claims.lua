-- claims: what an ack reads of a record.
-- Gives: SHORT_CLAIM: the token of a short record, and where it goes on; PLAIN_CLAIM: the token of a full one. Both
--        have neither key nor schedule, nor are they to run again. CLAIM, of any record: token, again, key, a TAB if
--        it recurs, and where it ends.
local SHORT_CLAIM = '^(%d+) %d+ %d+ %d+ %S 0 q()'
local PLAIN_CLAIM = '^(%d+) %d+ %d+ %d+ %S 0 f[^\t\n]*\t[^\t\n]*\t\t[^\t\n]*\t[^\t\n]*\n'
local CLAIM = '^(%d+) %d+ %d+ %d+ %S (%d+) [^\t\n]*\t[^\t\n]*\t?([^\t\n]*)\t?[^\t\n]*\t?[^\t\n]*(\t?)[^\n]*()'
