-- early: the tasks that pop grants for a moment that is still to come. The caller holds each until its moment.
-- Gives: early, a table. `ms` is how far ahead of now that moment may be; 0 if the caller does not hold tasks. `at` has
--        the moments, by the id of the task. `groups` is true once groups may run early, and `only` is true if no more
--        tasks may begin now.
local early = { ms = 0, at = {}, groups = false, only = false }
