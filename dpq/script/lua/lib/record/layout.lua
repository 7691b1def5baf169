-- layout: name the parts of a record that scripts read without the rest of it. The file record reads and writes whole
-- records; marks has the names of notes. docs/storage.md, "The record".
-- Gives: SHORT, the byte of the letter of a short record;
--        SHORT_HEAD, the format of that letter and a moment;
--        GROUP, the pattern of the group, for any record;
--        COST, the pattern of the cost, for a full record.
local SHORT, SHORT_HEAD = 113, 'q%011x'
local GROUP = '^[^\t\n]*\t([^\t\n]*)'
local COST = '^[^\t\n]*f%d+ %d+ %d+ %S+ (%d%S*) %d+ %d+ %S+\t'
