-- mend_rules: restore settings and rules that are lost or unreadable from their copies.
-- Keys: conf stats wake limits
-- Needs: now, problem, rules, open_or_close, lost, restore, settings
-- Gives: mend_settings(); mend_limit(field, text); rules_back(field), true if it has restored the rules.

-- Restores the rules of a field from their copy, if that can be read, and wakes a waiter.
local function rules_back(field)
  local hash, name = limits, field
  if field == 'queue' then
    hash, name = conf, 'queue_rules'
  end
  local kept = redis.call('HGET', stats, 'kept.' .. name)
  if not kept or not parsed(kept) then
    return false
  end
  redis.call('HSET', hash, name, kept)
  redis.call('HDEL', conf, 'shut_until', 'watched')
  redis.call('ZADD', wake, '0', 'w')
  seen.rules, seen.gates, seen.count, seen.lacking, seen.texts = {}, {}, nil, nil, nil
  if field ~= 'groups' then
    stirred[string.sub(field, 7)] = true -- "" for the queue
  end
  return true
end

local function mend_settings()
  local fault = settings_fault()
  if fault.gated then
    redis.call('HSET', conf, 'gated', fault.gated)
  end
  restore(fault.lost)
  if fault.turns then
    redis.call('HSET', conf, 'turns', stamp)
  end
  if fault.pushed then
    redis.call('HSET', stats, 'pushed', stamp)
  end
  local rules = redis.call('HGET', conf, 'queue_rules')
  unreadable('queue', rules, rules_back)
  local names, values, copied = settings()
  for i, name in ipairs(names) do
    if values[i] and values[i] ~= copied[i] and (name ~= 'queue_rules' or parsed(values[i])) then
      redis.call('HSET', stats, 'kept.' .. name, values[i])
    end
  end
end

local function mend_limit(field, text)
  local copy = 'kept.' .. field
  if not name_of(field) then
    problem('stray limit', field, text)
    redis.call('HDEL', limits, field)
    redis.call('HDEL', stats, copy)
  elseif parsed(text) and redis.call('HGET', stats, copy) ~= text then
    redis.call('HSET', stats, copy, text)
  else
    unreadable(field, text, rules_back)
  end
end
