-- view: read what limits, closings and probes allow now. It changes nothing.
--
-- Keys: ready delayed invisible waiting groups closed conf limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..]            groups, "" for the queue
--
-- Returns the time, ms, and a JSON object for each group. Its numbers are texts but for counts of tasks and permits:
-- * `field` of its limit ("queue" for the queue) and `rules`, both left out without a limit; `unreadable`.
-- * `opens`, ms; "0" if it is open, or if the moment is not known.
-- * `why` it lets no task run; "" if it lets tasks run. l: a 429 closed it. h: a caller closed it by hand. u: its rules
--   cannot be read. p: its probe runs. c: its concurrency is used up. s: the units of a window are spent. q: a quota
--   is spent. o: the budget of its host is spent. i: its first task waits for its retry (counted).
-- * `rate` and `slack`, ms, as learned; `left` and `granted`, units of each window; `met`, the 429s of its tasks.
-- * `quotas`: what is left of each, and its reset, ms. `budgets`: unit, what is left, ms until then, what is left then
--   if it comes back evenly, the whole limit and its ms; the last three may be 0.
-- * `due`, how many tasks are due; `permits`, how many permits are leases.
-- * `members` of a pool: the same of each, with its `name`; the windows of the pool itself have no units.
-- If units are spent, the moment is for a task that needs one of each unit. If tasks of the group wait, it is for the
-- best of them.
-- Lost reply: safe to send again.

-- Needs: now, view_of
local views = view_of({ unpack(args, 2) })
table.insert(views, 1, stamp)
return views
