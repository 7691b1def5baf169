-- until_opened: name the moment that stands for "until somebody says so". limits/pools.py has the same number.
-- Gives: UNTIL_OPENED, ms: in closed, of a group that is closed by hand without an end; in delayed, of a task that
--        waits for the end of a batch (batches), or of other tasks (followed).
local UNTIL_OPENED = 90000000000000
