-- bury: move tasks to the dead letters. Their number and their age have caps.
-- Keys: payload meta dead keys conf stats
-- Needs: now, record, event, trail, layout, batches
-- Gives: forget(id, task), which removes all that is stored of a task;
--        rescue(id, raw), which buries a task whose record cannot be read;
--        bury(id, task, reason), which makes a task a dead letter;
--        trim(most), which drops dead letters over the caps, `most` at a time. The caps are 100 000 tasks and 90 days,
--        unless the queue has others. It returns how many it has dropped.
local function forget(id, task)
  redis.call('HDEL', payload, id)
  redis.call('HDEL', meta, id)
  if task.key ~= '' then
    redis.call('HDEL', keys, task.key)
  end
end

local function trim(most)
  local caps = redis.call('HMGET', conf, 'dead_max_tasks', 'dead_max_age')
  local surplus = redis.call('ZCARD', dead) - (tonumber(caps[1]) or 100000)
  local drop = redis.call('ZRANGEBYSCORE', dead, '-inf', now - (tonumber(caps[2]) or 7776000000), 'LIMIT', 0, most)
  if surplus > #drop then
    drop = redis.call('ZRANGE', dead, 0, math.min(surplus, most) - 1)
  end
  for _, id in ipairs(drop) do
    redis.call('ZREM', dead, id)
    local raw = redis.call('HGET', meta, id)
    forget(id, raw and read(raw) or { key = '' })
    note('dropped', string.match(raw or '', GROUP) or '', '', id, '')
  end
  if #drop > 0 then
    redis.pcall('HINCRBY', stats, 'dropped', #drop)
  end
  return #drop
end

local CLASSES = { ['attempts spent'] = 'buried_attempts_spent', ['lease expired'] = 'buried_lease_expired',
  expired = 'buried_expired', ['payload missing'] = 'buried_payload_missing' } -- totals

local function die(id, task, reason, batch)
  task.reason = reason
  redis.call('HSET', meta, id, write(task))
  redis.call('ZADD', dead, stamp, id)
  redis.pcall('HINCRBY', stats, 'buried', 1)
  if CLASSES[reason] then
    redis.pcall('HINCRBY', stats, CLASSES[reason], 1)
  end
  tell('dead', task.group, '', id, reason)
  redis.pcall('PUBLISH', 'dpq:calls:{' .. string.match(meta, '^dpq:{([^{}]*)') .. '}', id) -- as in keep_results
  if batch then
    batching().count(batch, 'left', 'dead')
  end
end

local function bury(id, task, reason)
  die(id, task, reason, batch_in(task.options))
  trim(2)
end

-- Buries a task whose record cannot be read. A new record replaces it, so that the payload is not lost.
local function rescue(id, raw)
  local task = read(string.format(SHORT_HEAD, 0) .. string.rep('0', 15) .. '1 0\t')
  task.delivery, task.enqueued, task.inline = 'b', stamp, string.match(raw or '', '\n.*$') or ''
  die(id, task, 'bad record', batch_in(raw or ''))
end
