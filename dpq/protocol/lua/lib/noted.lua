-- noted: conf notes in `limited` how many limits there are: "q" when one of them is the queue's, and the number of
-- the others. A pop that meets fewer knows that some are lost.
-- Keys: conf stats limits
-- Gives: limits_noted() and limits_there(), "q" or "" and the number, as noted (nil when it is not, or cannot be
--        read) and as it is; note_limits(queue, count), which notes them, with a copy.
local function limits_noted()
  local queue, count = string.match(redis.call('HGET', conf, 'limited') or '', '^(q?)(%d+)$')
  return queue, tonumber(count or '')
end

local function limits_there()
  return redis.call('HEXISTS', conf, 'queue_rules') == 1 and 'q' or '', redis.call('HLEN', limits)
end

local function note_limits(queue, count)
  local text = queue .. string.format('%.0f', count)
  if text == '0' then
    redis.call('HDEL', conf, 'limited')
    redis.pcall('HDEL', stats, 'kept.limited')
  else
    redis.call('HSET', conf, 'limited', text)
    redis.pcall('HSET', stats, 'kept.limited', text)
  end
end
