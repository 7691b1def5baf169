-- oldest: find out for how long the oldest ready task has been due. If more than 200 tasks are ready, it searches only
-- the first task of some priorities: the 100 best, and the worst.
-- Keys: ready meta conf
-- Needs: now, record, member
-- Gives: oldest_ready(), ms, or -1 if no task is ready.
local function oldest_ready()
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
    local function last_of(score)
      return redis.call('ZRANGE', ready, score, score, 'BYSCORE', 'REV', 'LIMIT', 0, 1)
    end
    local worst = redis.call('ZRANGE', ready, -1, -1, 'WITHSCORES')[2]
    look(lifo and last_of(worst) or redis.call('ZRANGE', ready, worst, worst, 'BYSCORE', 'LIMIT', 0, 1))
    local from = '-inf'
    for _ = 1, 100 do
      local member, score = unpack(redis.call('ZRANGE', ready, from, '+inf', 'BYSCORE', 'LIMIT', 0, 1,
        'WITHSCORES'))
      if not member then
        break
      end
      look(lifo and last_of(score) or { member })
      from = '(' .. score
    end
  end
  local since = -1
  for _, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
    local task = raw and read(raw)
    since = task and math.max(since, now - task.enqueued - task.wait, 0) or since -- by id it runs before it is due
  end
  return since
end
