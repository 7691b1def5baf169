-- next_event: look at what time will bring, without touching it.
--
-- KEYS[1]  delayed    ZSET    id -> due, ms
-- KEYS[2]  invisible  ZSET    id -> lease end, ms
-- KEYS[3]  closed     ZSET    group -> opens, ms
-- ARGV[1]  now        ms, or "" for the server's clock
--
-- Returns the ms until the next task is due, lease ends or group opens, 0 when one is due now, or -1.
-- Lost reply: safe to send again.
local delayed, invisible, closed = KEYS[1], KEYS[2], KEYS[3]
local now = ARGV[1]

-- @include _now
-- @include _next
local event = next_event()
return event and math.max(math.ceil(event - now), 0) or -1
