-- settings: find lost settings and limits, and restore them from their copies.
-- Keys: payload meta conf stats wake limits gates
-- Needs: now, problem, rules, open_or_close, lost, restore, noted
-- Gives: look_at_settings(mends), for all that conf holds;
--        look_at_limit(field, text, mends), for a field of limits;
--        look_at_copy(name, text, mends), for a field of stats, which may be the copy of a lost limit.
--        If `mends`, they mend what they find. Else they only report.

-- Restores the rules of a field from their copy, if that can be read, and wakes a waiter. Returns true if it did.
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

-- Returns the group of a limit; "*" for all groups, and "" for the queue.
local function name_of(field)
  return field == 'queue' and '' or field == 'groups' and '*' or string.match(field, '^group:(.*)$') or field
end

-- Reports rules that cannot be read; in a repair, only if they come back. Without a copy their scope stays closed.
local function unreadable(field, text, mends)
  if not parsed(text) and (not mends or rules_back(field)) then
    problem('limit cannot be read', name_of(field), text)
  end
end

local function look_at_settings(mends)
  local lost, formatted = settings_lost(), false
  for i = 1, #lost, 2 do
    local of_queue = lost[i] == 'queue_rules'
    problem(of_queue and 'limits not in force' or 'settings lost', of_queue and '' or lost[i], lost[i + 1])
    formatted = formatted or lost[i] == 'format'
  end
  local format, gated = redis.call('HGET', conf, 'format'), redis.call('HGET', conf, 'gated')
  local tasks = redis.call('HLEN', meta) + redis.call('HLEN', payload) > 0 -- a payload becomes a dead letter
  if tasks and not string.match(format or '', '^%d+$') and not formatted then
    problem('settings lost', 'format', '')
  end
  local numbered = not tasks or redis.call('HGET', stats, 'pushed')
  if not numbered then
    problem('settings lost', 'pushed', 'the count of all pushes')
  end
  local queue, count = limits_there()
  local queue_noted, noted = limits_noted()
  local marked = gated or count + redis.call('HLEN', gates) == 0
  if not marked then
    problem('limits not in force', 'gated', 'groups have limits or are closed')
  end
  if noted and (count < noted or queue < queue_noted) then
    problem('limits not in force', 'limited', string.format('%d of %d limits are there', count + #queue,
      noted + #queue_noted))
  end
  if mends then
    if not marked then
      redis.call('HSET', conf, 'gated', noted and queue_noted .. string.format('%.0f=', noted) or '1')
    end
    restore(lost)
    if not numbered then
      redis.call('HSET', stats, 'pushed', stamp)
    end
  end
  local rules = redis.call('HGET', conf, 'queue_rules')
  if rules then
    unreadable('queue', rules, mends)
  end
  local names, values, copied = settings()
  for i, name in ipairs(mends and names or {}) do
    if values[i] and values[i] ~= copied[i] and (name ~= 'queue_rules' or parsed(values[i])) then
      redis.call('HSET', stats, 'kept.' .. name, values[i])
    end
  end
end

local function look_at_limit(field, text, mends)
  unreadable(field, text, mends)
  if mends and parsed(text) and redis.call('HGET', stats, 'kept.' .. field) ~= text then
    redis.call('HSET', stats, 'kept.' .. field, text)
  end
end

local function look_at_copy(name, text, mends)
  local field = string.match(name, '^kept%.(group.*)$')
  if field and redis.call('HEXISTS', limits, field) == 0 then
    problem('limits not in force', name_of(field), text)
    if mends then
      redis.call('HSET', limits, field, text)
      rules_back(field)
    end
  end
end
