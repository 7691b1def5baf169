-- undelivered: name the pattern of a short record that was never delivered, with its payload behind it. Most tasks have
-- this form.
-- Gives: FRESH, the pattern. It finds where the digits end, the group, and where the payload begins;
--        LEAST_DIGITS and MOST_BYTES, the bounds. The record is sound if its digits end at LEAST_DIGITS or later, and
--        its payload, without the group, begins at MOST_BYTES or sooner.
local FRESH, LEAST_DIGITS, MOST_BYTES = '^q%x%x%x%x%x%x%x%x%x%x%x%d+() %-?%d+\t([^\t\n]*)\n()', 28, 402
