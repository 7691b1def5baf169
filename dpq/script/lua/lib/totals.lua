-- totals: list the names of what a queue counts. A total has the same name in the key `stats` and in `QueueStats`.
-- Gives: TOTALS, the names of numbers that only grow; GAUGES, the names of what there is now: {name, short name, ...}.
--        Slots of the history have the short names (remember). A short name stays with its total for ever, since slots
--        live for 14 days. The names "w", "r" and a number are taken (times). To add a total: docs/life_of_a_task.md.
local TOTALS = {
  'pushed', 'pu', 'popped', 'po', 'acked', 'ak', 'failed', 'fa', 'deferred', 'df', 'expired_leases', 'xl',
  'buried', 'bu', 'replayed', 're', 'dropped', 'dr', 'rate_limited', 'rl',
  'buried_attempts_spent', 'ba', 'buried_lease_expired', 'bl', 'buried_lapses_spent', 'bs', 'buried_expired', 'bx',
  'buried_payload_missing', 'bm',
  'rate_limited_403', 'm403', 'rate_limited_503', 'm503', 'rate_limited_529', 'm529', 'rate_limited_other', 'm0',
}

local GAUGES = {
  'ready', 'rd', 'delayed', 'de', 'invisible', 'iv', 'waiting', 'wa', 'dead', 'dd', 'oldest_ready', 'or',
  'closed_groups', 'cg', 'workers', 'wk',
}
