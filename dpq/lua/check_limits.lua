-- check_limits: look for broken invariants in what limits keep, a bounded part at a time.
--
-- KEYS[1]  invisible  ZSET    id -> lease end, ms
-- KEYS[2]  meta       HASH    id -> record
-- KEYS[3]  conf       HASH    settings
-- KEYS[4]  limits     HASH    what is limited -> how
-- KEYS[5]  gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[6]  tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  part       tracked, gates or invisible
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to look at, about
--
-- Returns as check does: {next cursor or 0, kind, subject, detail, kind, ...}.
-- Lost reply: safe to send again.
local invisible, meta, conf, limits, gates = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local tracked = KEYS[6]
local now, part, cursor, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- @include _now
-- @include _record
-- @include _gate
-- @include _sound
local set = ({ tracked = tracked, gates = gates, invisible = invisible })[part]
local page = redis.call(set == gates and 'HSCAN' or 'ZSCAN', set, cursor, 'COUNT', count)
reply[1] = page[1]
if set == gates and cursor == '0' then
  gate_fault('', redis.call('HGET', conf, 'queue_gate') or '- ')
end
for i = 1, #page[2], 2 do
  if set == gates then
    if not stray(page[2][i], page[2][i + 1]) then
      gate_fault(page[2][i], page[2][i + 1])
    end
  elseif set == tracked then
    lease_fault(page[2][i], page[2][i + 1])
  else
    lease_uncounted(page[2][i])
  end
end
return reply
