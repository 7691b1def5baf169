-- layout: what stands where in a record, for scripts that need one part of it. The whole is read and written in record,
-- and only there. Each pattern begins at the start of the record, unless it says otherwise. docs/design.md, "The
-- record".
-- Gives: SHORT and FULL, the bytes of the letters behind the counts; COUNTS, which ends at that letter.
--        GROUP; COST, of a full one; DELIVERY, the number of the newest one; FIRST_DUE, of a full one in its first
--        delivery: when it was pushed, and its delay; NAMES: reason, last error, and what stands behind it.
--        SHORT_HEAD, the format of a letter and a moment; FRESH: the end of the digits, group and payload of a short
--        record that was never delivered, which is sound if the digits end at LEAST_DIGITS or later, and the payload
--        begins at MOST_BYTES or sooner, beside the group.
--        SHORT_CLAIM: the token, and where it goes on, of a short record; PLAIN_CLAIM: the token of a full one; both
--        have neither key nor schedule, nor are they to run again. CLAIM, of any record: token, again, key, a TAB if
--        it recurs, and where the record ends.
--        OPTIONS, PIN, SPENT and RUNS_AS, the marks of its notes (notes); OWN_LEASE, the visibility in its options;
--        PINNED, the member that it is pinned to; RAN_AS: token and member.
local SHORT, FULL = 113, 102 -- q and f
local COUNTS = '^(%d+) (%d+) (%d+) (%d+) (%S) (%d+) ()'
local GROUP = '^[^\t\n]*\t([^\t\n]*)'
local COST = '^[^\t\n]*f%d+ %d+ %d+ %S+ (%d%S*) %d+ %d+ %S+\t'
local DELIVERY = '^%d+ %d+ (%d+)'
local FIRST_DUE = '^%d+ 0 1 %d+ %- 0 f(%d+) %d+ %d+ %S+ %S+ (%d+)'
local NAMES = '^[^\t\n]*\t[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t([^\t\n\28-\31]*)([^\n]*)'
local SHORT_HEAD = 'q%011x'
local FRESH, LEAST_DIGITS, MOST_BYTES = '^q%x%x%x%x%x%x%x%x%x%x%x%d+() %-?%d+\t([^\t\n]*)\n()', 28, 402
local SHORT_CLAIM = '^(%d+) %d+ %d+ %d+ %S 0 q()'
local PLAIN_CLAIM = '^(%d+) %d+ %d+ %d+ %S 0 f[^\t\n]*\t[^\t\n]*\t\t[^\t\n]*\t[^\t\n]*\n'
local CLAIM = '^(%d+) %d+ %d+ %d+ %S (%d+) [^\t\n]*\t[^\t\n]*\t?([^\t\n]*)\t?[^\t\n]*\t?[^\t\n]*(\t?)[^\n]*()'
local OPTIONS, PIN, SPENT, RUNS_AS = '\31', '\30', '\29', '\28'
local OWN_LEASE = '^[^\n]*\31(%d+) %d+'
local PINNED = '^[^\n]*\30([^\t\n\28-\31]*)'
local RAN_AS = '^[^\n]*\28(%d+) ([^\t\n]*)'
