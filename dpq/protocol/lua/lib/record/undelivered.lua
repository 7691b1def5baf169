-- undelivered: a short record that was never delivered, with its payload behind it, as most tasks have it.
-- Gives: FRESH: the end of its digits, its group, where its payload begins. It is sound if the digits end at
--        LEAST_DIGITS or later, and the payload begins at MOST_BYTES or sooner, beside the group.
local FRESH, LEAST_DIGITS, MOST_BYTES = '^q%x%x%x%x%x%x%x%x%x%x%x%d+() %-?%d+\t([^\t\n]*)\n()', 28, 402
