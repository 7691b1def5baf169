-- stats: count the tasks in each state; read the totals, and the age of the oldest ready task.
--
-- Keys: ready delayed invisible waiting meta dead conf stats
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns {ready, delayed, invisible, waiting, dead, ms the oldest has been ready or -1, total, count, total, count,
-- ...}. If more than 200 tasks are ready, it searches the oldest among the first of each of the 100 best priorities,
-- and of the worst.
-- Lost reply: safe to send again.
local time = ARGV[1]

-- Needs: now, record, member
local ids = {}
local function look(members)
  for i = 1, #members do
    ids[#ids + 1] = split(ready, members[i])
  end
end
if redis.call('ZCARD', ready) <= 200 then
  look(redis.call('ZRANGE', ready, 0, -1))
else
  local lifo = redis.call('HGET', conf, 'order') == 'lifo'
  local worst = redis.call('ZRANGE', ready, -1, -1, 'WITHSCORES')[2]
  look(redis.call(lifo and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE', ready, worst, worst, 'LIMIT', 0, 1))
  local from = '-inf'
  for _ = 1, 100 do
    local member, score = unpack(redis.call('ZRANGEBYSCORE', ready, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
    if not member then
      break
    end
    look(lifo and redis.call('ZREVRANGEBYSCORE', ready, score, score, 'LIMIT', 0, 1) or { member })
    from = '(' .. score
  end
end
local since = -1
for _, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
  local task = raw and read(raw)
  since = task and math.max(since, now - task.enqueued - task.wait) or since
end
local reply = {}
for i, set in ipairs({ ready, delayed, invisible, waiting, dead }) do
  reply[i] = redis.call('ZCARD', set)
end
reply[6] = since
local totals = { 'pushed', 'popped', 'acked', 'failed', 'deferred', 'expired_leases', 'buried', 'replayed', 'dropped' }
local counts = redis.call('HMGET', stats, unpack(totals)) -- it holds copies of all limits, too
for i, name in ipairs(totals) do
  reply[#reply + 1], reply[#reply + 2] = name, counts[i] or '0'
end
return reply
