-- view: read what limits, closings and probes allow now. It changes nothing.
--
-- Keys: ready delayed invisible waiting groups closed conf limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..]            groups, "" for the queue
--
-- Returns eight texts for each group:
-- * Its limit: its field of limits ("queue" for the queue), TAB and its rules, with a ? before rules that cannot be
--   read; "" without a limit.
-- * When it opens, ms; "0" if it is open, or if the moment is not known.
-- * Why it lets no task run; "" if it lets tasks run. l: a 429 closed it. h: a caller closed it by hand. u: its rules
--   cannot be read. p: its probe runs. c: its concurrency is used up. s: the units of a window are spent. q: a quota
--   is spent. o: the budget of its host is spent. i: its first task waits for its retry (hold).
-- * The learned rate and slack, ms.
-- * The units that are left of each window, TAB, `left:reset` of each quota, TAB, what is left of each budget, TAB, the
--   429s of its tasks and the units that each window has granted.
-- * How many tasks are due, and how many permits are leases.
-- * The time now, ms.
-- * For a pool a line for each member; the windows of the pool itself have no units. Its fields, with TABs between, are
--   the member's name, when it opens, why it lets no task run, its rate and slack, its fifth text, and its permits that
--   are leases.
-- If units are spent, the moment is for a task that needs one of each unit. If tasks of the group wait, it is for the
-- best of them.
-- Lost reply: safe to send again.
local time, args = ARGV[1], ARGV

-- Needs: now, view_of
return view_of({ unpack(args, 2) })
