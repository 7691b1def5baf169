-- layout: name the parts of a record that scripts read without the rest of it. The file record reads and writes whole
-- records; marks has the names of notes. docs/storage.md, "The record".
-- Gives: SHORT, the byte of the letter of a short record; SHORT_HEAD, the format of that letter and a moment;
--        GROUP, the group, for any record; COST, the cost, for a full record;
--        SHORT_CLAIM, for a short record: its token, and where the record goes on; PLAIN_CLAIM, for a full record: its
--        token. Both only match tasks without key, schedule, batch and followers that are not to run again;
--        CLAIM, for any record: token, again, key, a TAB if the task recurs, and where the record ends;
--        FRESH, for a short record that was never delivered: where its digits end, its group, and where its payload
--        begins. It is sound if the digits end at LEAST_DIGITS or later, and the payload, without the group, begins at
--        MOST_BYTES or sooner.
local SHORT, SHORT_HEAD = 113, 'q%011x'
local GROUP = '^[^\t\n]*\t([^\t\n]*)'
local COST = '^[^\t\n]*f%d+ %d+ %d+ %S+ (%d%S*) %d+ %d+ %S+\t'

local SHORT_CLAIM = '^(%d+) %d+ %d+ %d+ %S 0 q()'
local PLAIN_CLAIM = '^(%d+) %d+ %d+ %d+ %S 0 f[^\t\n]*\t[^\t\n]*\t\t[^\t\n]*\t[^\t\n\25\27]*\n'
local CLAIM = '^(%d+) %d+ %d+ %d+ %S (%d+) [^\t\n]*\t[^\t\n]*\t?([^\t\n]*)\t?[^\t\n]*\t?[^\t\n]*(\t?)[^\n]*()'

local FRESH, LEAST_DIGITS, MOST_BYTES = '^q%x%x%x%x%x%x%x%x%x%x%x%d+() %-?%d+\t([^\t\n]*)\n()', 28, 402
