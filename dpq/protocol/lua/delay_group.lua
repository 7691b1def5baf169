-- delay_group: close a group for a time from now, or open it. What its limit has granted stands.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  closed     ZSET    group -> opens, ms
-- KEYS[7]  meta       HASH    id -> record
-- KEYS[8]  dead       ZSET    id -> when, ms
-- KEYS[9]  conf       HASH    settings
-- KEYS[10] wake       ZSET    the marker that waiting consumers block on
-- KEYS[11] tick       ZSET    the marker that daemons block on
-- KEYS[12] limits     HASH    what is limited -> how
-- KEYS[13] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[14] tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  group
-- ARGV[3]  ms         from now; 0 opens
--
-- Returns 1. However many tasks wait in the group, one entry moves.
-- Lost reply: safe to send again; the time then counts from the second call.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, meta, dead, conf, wake = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local tick, limits, gates, tracked = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local now, group, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
if #group > 200 then
  return redis.error_reply('ERR DPQ: the group is too long: at most 200 bytes')
end

-- @include _now
-- @include _notice
-- @include _groups
-- @include _rules
-- @include _pace
-- @include _gate
-- @include _keep
-- @include _settle
-- @include _place
-- @include _go_on
local gate = gate_of(group)
if ms > 0 then
  gate.opens, gate.why, gate.changed = now + ms, 'h', true
  -- @include _mark
elseif gate.opens > 0 or gate.probe == 'p' then
  gate.opens, gate.why, gate.changed = 0, '-', true
  gate.probe = gate.probe == 'p' and '-' or gate.probe
end
for _, window in ipairs(gate) do -- what a 429 has added goes with its closing
  window.owed = window.paid
end
settle(group)
admit()
return 1
