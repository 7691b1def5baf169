-- close: close a partition after another partition of its queue met a 429. The first task afterwards is a probe.
--
-- Keys: conf stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  ms         from now until the host may be asked again
--
-- Returns 1. If the partition is closed for longer already, that closing stays.
-- Lost reply: safe to send again; the time then counts from the second call.
local time, ms = ARGV[1], ARGV[2]

-- Needs: now, go_on, closing
local gate = redis.call('HGET', conf, 'queue_gate') or '' -- docs/storage.md, "Gates": a partition has no rules
local opens, probe = string.match(gate, '^(%d%S*) %S (%S+) ')
opens = math.max(now + ms, tonumber(opens or 0) or 0)
probe = (probe or '-') == '-' and 'p' or probe
go_on()
redis.call('HSET', conf, 'queue_gate', closing(opens, 'l', probe))
redis.pcall('HSET', stats, 'kept.shut_until', string.format('%.17g', opens))
return 1
