-- stats: how many tasks are in each state, the running totals, the oldest ready task.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  meta       HASH    id -> record
-- KEYS[6]  dead       ZSET    id -> when, ms
-- KEYS[7]  conf       HASH    settings
-- KEYS[8]  stats      HASH    running totals
-- ARGV[1]  now        ms, or "" for the server's clock
--
-- Returns {ready, delayed, invisible, waiting, dead, ms the oldest has been ready or -1, total, count,
-- total, count, ...}. Of more than 200 ready tasks only the first to come in of each of the 100 best
-- priorities and of the worst are looked at for the oldest.
-- Lost reply: safe to send again.
local ready, delayed, invisible, waiting, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, conf, stats = KEYS[6], KEYS[7], KEYS[8]
local now = ARGV[1]

-- @include _now
-- @include _record
-- @include _member
local since, score = -1, '-inf'
local function look(members)
  for i = 1, #members do
    local raw = redis.call('HGET', meta, (split(ready, members[i])))
    local task = raw and read(raw)
    since = task and math.max(since, now - task.enqueued - task.wait) or since
  end
end
if redis.call('ZCARD', ready) <= 200 then
  look(redis.call('ZRANGE', ready, 0, -1))
else
  local last = redis.call('HGET', conf, 'order') == 'lifo' and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
  local worst = redis.call('ZRANGE', ready, -1, -1, 'WITHSCORES')[2]
  look(redis.call(last, ready, worst, worst, 'LIMIT', 0, 1))
  for _ = 1, 100 do
    score = redis.call('ZRANGEBYSCORE', ready, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if not score then
      break
    end
    look(redis.call(last, ready, score, score, 'LIMIT', 0, 1))
    score = '(' .. score
  end
end
local reply = {}
for i, set in ipairs({ ready, delayed, invisible, waiting, dead }) do
  reply[i] = redis.call('ZCARD', set)
end
reply[6] = since
local totals = { 'pushed', 'popped', 'acked', 'failed', 'deferred', 'expired_leases', 'buried', 'replayed', 'dropped' }
local counts = redis.call('HMGET', stats, unpack(totals)) -- beside them stand copies of all limits
for i, name in ipairs(totals) do
  reply[#reply + 1], reply[#reply + 2] = name, counts[i] or '0'
end
return reply
