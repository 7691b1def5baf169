-- trim: store dead letters, and keep to the caps of their number and their age.
-- Needs: now, record, moments
-- Gives: lay_down(id, task, reason), which stores a task as a dead letter, and calls those who wait for its result;
--        trim(most), which drops dead letters over the caps, `most` at a time. The caps are 100 000 tasks and 90 days,
--        unless the queue has others. It returns how many it has dropped;
--        forget(id, task), which removes what is stored of a task that has left its set; nil stands for a record that
--        cannot be read.
local function forget(id, task)
  redis.call('HDEL', payload, id)
  redis.call('HDEL', meta, id)
  if task and task.key ~= '' then
    redis.call('HDEL', keys, task.key)
  end
end

local function trim(most)
  local caps = redis.call('HMGET', conf, 'dead_max_tasks', 'dead_max_age')
  local oldest = now - (tonumber(caps[2]) or 7776000000)
  local drop = over_caps(dead, redis.call('ZCARD', dead) - (tonumber(caps[1]) or 100000), oldest, most)
  for _, id in ipairs(drop) do
    redis.call('ZREM', dead, id)
    local raw = redis.call('HGET', meta, id)
    forget(id, raw and read(raw))
  end
  if #drop > 0 then
    redis.pcall('HINCRBY', stats, 'dropped', #drop)
  end
  return #drop
end

local function lay_down(id, task, reason)
  task.reason = reason
  redis.call('HSET', meta, id, write(task))
  redis.call('ZADD', dead, stamp, id)
  redis.pcall('HINCRBY', stats, 'buried', 1)
  redis.pcall('PUBLISH', 'dpq:calls:{' .. string.match(meta, '^dpq:{([^{}]*)') .. '}', id) -- as in keep_results
end
