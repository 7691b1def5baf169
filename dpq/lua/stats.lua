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
-- total, count, ...}. The oldest is found among the first of each of the 100 best priorities and the first
-- of the worst.
-- Lost reply: safe to send again.
local ready, delayed, invisible, waiting, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, conf, stats = KEYS[6], KEYS[7], KEYS[8]
local now = ARGV[1]

-- @include _now
-- @include _record
-- @include _member
local since, score = -1, '-inf'
local lifo = redis.call('HGET', conf, 'order') == 'lifo'
local function look(members)
  if members[1] then
    local raw = redis.call('HGET', meta, (split(ready, members[1])))
    local task = raw and read(raw)
    since = task and math.max(since, now - task.enqueued - task.wait) or since
  end
  return members[2]
end
for _ = 1, 100 do
  score = look(redis.call('ZRANGEBYSCORE', ready, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
  if not score then
    break
  elseif lifo then
    look(redis.call('ZREVRANGEBYSCORE', ready, score, score, 'WITHSCORES', 'LIMIT', 0, 1))
  end
  score = '(' .. score
end
if score then
  local worst = redis.call('ZRANGE', ready, -1, -1, 'WITHSCORES')
  look(worst)
  look(redis.call('ZRANGEBYSCORE', ready, worst[2], worst[2], 'WITHSCORES', 'LIMIT', 0, 1))
end
local reply = {}
for i, set in ipairs({ ready, delayed, invisible, waiting, dead }) do
  reply[i] = redis.call('ZCARD', set)
end
reply[6] = since
for _, text in ipairs(redis.call('HGETALL', stats)) do
  reply[#reply + 1] = text
end
return reply
