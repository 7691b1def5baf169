-- fail: this attempt failed: the task comes back later, or is dead when its attempts are spent. A recurring task
-- does not die then: it waits for its next time.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  closed     ZSET    group -> opens, ms
-- KEYS[7]  payload    HASH    id -> bytes
-- KEYS[8]  meta       HASH    id -> record
-- KEYS[9]  dead       ZSET    id -> when, ms
-- KEYS[10] keys       HASH    unique key -> id
-- KEYS[11] conf       HASH    settings
-- KEYS[12] stats      HASH    running totals
-- KEYS[13] wake       ZSET    the marker that waiting consumers block on
-- KEYS[14] tick       ZSET    the marker that daemons block on
-- KEYS[15] limits     HASH    what is limited -> how
-- KEYS[16] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[17] tracked    ZSET    leases whose end lets others run
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease; of a cron task as in ack
-- ARGV[4]  ms         from now until the next attempt
-- ARGV[5]  message    the last error, or ""
--
-- Returns 1; 0 when this delivery was so settled before (nothing changed); -1 when its token is not
-- the live one, or another verb settled it (nothing changed). A text, as ack's, when a cron task has spent its
-- attempts and none of the times will do (nothing changed).
-- Lost reply: safe to send again, the second answer is 0.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, stats, wake, tick, limits = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local gates, tracked = KEYS[16], KEYS[17]
local now, id, token, ms, message = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local claim, verb = token, 'f'
token = string.match(token, '^%d*')

-- @include _now
-- @include _record
-- @include _fence
-- @include _notice
-- @include _groups
-- @include _rules
-- @include _pace
-- @include _gate
-- @include _keep
-- @include _settle
-- @include _place
-- @include _back
-- @include _bury
-- @include _renew
-- @include _draw
-- @include _anew
-- @include _recur
local counts = task.delivery == '-' or task.delivery == 'd' -- else the end of the lease has counted it
local spent, at, after = task.attempts + (counts and 1 or 0) >= tonumber(task.max), nil, nil
if spent and task.schedule ~= '' then
  at, after = next_due(task, claim)
  if not at then
    return after .. task.schedule
  end
end
leave(id, task)
redis.pcall('HINCRBY', stats, 'failed', 1)
if at then
  ms = anew(task, at)
  task.token = token -- so that the same call again finds it settled
elseif counts then
  task.attempts = task.attempts + 1
end
task.delivery, task.error = verb, message
if spent and not at then
  bury(id, task, 'attempts spent')
  admit()
  return 1
end
redis.call('HSET', meta, id, write(task))
-- @include _return
