-- noted: store in conf how many limits there are. The text is "q" if the queue has a limit, then the number of the
-- other limits. It stands in `limited`. It also stands in `gated`, with a "=" behind it; without limits, `gated` is "1"
-- or missing. So a pop that finds fewer limits knows that some are lost, even if one of the two fields is lost as well.
-- Keys: conf stats limits
-- Gives: limits_noted(), the stored "q" or "", and the stored number; nil if the text is missing or unreadable;
--        limits_there(), the same of the limits that are there now;
--        note_limits(queue, count), which stores both, with a copy. It returns true if there are any limits.
local function limits_noted()
  local limited, gated = unpack(redis.call('HMGET', conf, 'limited', 'gated'))
  local note = string.match(limited or '', '^q?%d+$') or string.match(gated or '', '^(q?%d+)=$')
  local queue, count = string.match(note or '', '^(q?)(%d+)$')
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
    if redis.call('HEXISTS', conf, 'gated') == 1 then
      redis.call('HSET', conf, 'gated', '1')
    end
    return false
  end
  redis.call('HSET', conf, 'limited', text, 'gated', text .. '=')
  redis.pcall('HSET', stats, 'kept.limited', text)
  return true
end
