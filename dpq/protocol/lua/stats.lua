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
local counts = redis.call('HMGET', stats, unpack(totals)) -- it holds copies of all limits, too
for i, name in ipairs(totals) do
  reply[#reply + 1], reply[#reply + 2] = name, counts[i] or '0'
end
return reply
