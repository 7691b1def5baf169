-- restore: restore lost settings from their copies (lost). If all of conf is lost, the gate of the queue's own limit is
-- lost as well, and then counts as spent. The turns are lost, too: they go on behind all others.
-- Keys: conf stats
-- Needs: now, closing, lost
-- Gives: restore(lost), for what settings_lost (lost) gives.
local function restore(lost)
  local known = {}
  for i = 1, #lost, 2 do
    known[lost[i]] = lost[i + 1]
  end
  for i = 1, #lost, 2 do
    redis.call('HSET', conf, lost[i], lost[i + 1])
  end
  if known.format then
    local shut = redis.call('HGET', stats, 'kept.shut_until')
    shut = (tonumber(shut or 0) or 0) > now and closing(shut, 'l', 'p') or known.queue_rules and closing(0, '-', '-')
    if shut and not redis.call('HGET', conf, 'queue_gate') then -- "lost" is no number, so the gate counts as spent
      redis.call('HSET', conf, 'queue_gate', shut .. (known.queue_rules and 'lost ' or ''))
    end
    if known.fairness == 'round_robin' and not redis.call('HGET', conf, 'turns') then
      redis.call('HSET', conf, 'turns', stamp)
    end
    redis.call('HSET', conf, 'heavy', '1')
    if not redis.call('HGET', conf, 'next_event') then -- upkeep then finds the right time, and stores it
      redis.call('HSET', conf, 'next_event', '0')
    end
  end
  if known.limited then
    redis.call('HSET', conf, 'gated', known.limited .. '=') -- as note_limits (noted) stores it
  end
  if known.queue_rules then
    redis.call('HDEL', conf, 'shut_until', 'watched')
  end
end
