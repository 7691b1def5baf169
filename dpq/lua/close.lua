-- close: a partition closes because its queue met a limit in another one. Its first task after that is a probe.
--
-- KEYS[1]  conf       HASH    settings
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  ms         from now until it may be tried again
--
-- Returns 1. A longer closing is never shortened.
-- Lost reply: safe to send again; the time then counts from the second call.
local conf = KEYS[1]
local now, ms = ARGV[1], ARGV[2]

-- @include _now
local gate = redis.call('HGET', conf, 'queue_gate') or '' -- docs/design.md, "Limits": a partition has no rules
local opens, probe = string.match(gate, '^(%d%S*) %S (%S+) ')
opens = math.max(now + ms, tonumber(opens or 0) or 0)
probe = (probe or '-') == '-' and 'p' or probe
redis.call('HSET', conf, 'queue_gate', string.format('%.17g l ', opens) .. probe .. ' 0 0 0 ')
return 1
