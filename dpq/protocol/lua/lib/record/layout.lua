-- layout: where the parts of a record are that scripts read without the rest of it. The whole is read and written in
-- record, notes have names in marks. docs/storage.md, "The record".
-- Gives: SHORT, the byte of the letter of a short record, and SHORT_HEAD, the format of that letter and a moment;
--        GROUP, of any record; COST, of a full one.
local SHORT, SHORT_HEAD = 113, 'q%011x'
local GROUP = '^[^\t\n]*\t([^\t\n]*)'
local COST = '^[^\t\n]*f%d+ %d+ %d+ %S+ (%d%S*) %d+ %d+ %S+\t'
