-- drop: remove the whole queue, with its tasks, settings and totals.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers history events trail batches followers cancelled results progress errors recent
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns how many keys of the queue were stored. In a family the limits stay for the other queues, so each lease ends
-- in them. -5: more than 250 tasks run or are delayed: purge these in steps, then call again. -21: the queue is the
-- head of a family that has other queues. In both cases nothing has changed.
-- Lost reply: safe to send again.
local time = ARGV[1]

local MOST, removed = 250, 0
-- Needs: now
if shared ~= conf then
  if redis.call('ZCARD', invisible) + redis.call('ZCARD', delayed) > MOST then
    return -5
  end
  -- Needs: record, place
  for _, set in ipairs({ invisible, delayed }) do
    for _, id in ipairs(redis.call('ZRANGE', set, '0', '-1')) do
      local task = read(redis.call('HGET', meta, id) or '')
      if task then
        leave(id, task)
      end
    end
  end
  admit(true)
  local others = {}
  for each in string.gmatch(redis.call('HGET', shared, 'family') or '', '[^\n]+') do
    others[#others + 1] = each ~= conf and each or nil
  end
  if others[2] then
    redis.call('HSET', shared, 'family', table.concat(others, '\n'))
    redis.call('HSET', copies, 'kept.family', table.concat(others, '\n'))
  else -- only the head is left
    redis.call('HDEL', shared, 'family')
    redis.call('HDEL', copies, 'kept.family')
  end
elseif redis.call('HGET', conf, 'family') then
  return -21
else -- no other queue has these limits
  removed = redis.call('UNLINK', limits, gates, tracked)
end
return removed + redis.call('UNLINK', ready, delayed, invisible, waiting, groups, closed, payload, meta, dead, keys,
  conf, stats, wake, tick, workers, history, events, trail, batches, followers, cancelled, results, progress, errors,
  recent)
