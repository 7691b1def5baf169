-- settings: find problems of settings and limits.
-- Keys: meta conf stats limits gates
-- Needs: problem, rules, lost, noted, counts, totals
-- Gives: settings_fault(): reports lost settings, and returns {lost, format, gated, turns, pushed}.
--        limit_lost(field, text): for a field of stats that is the copy of a lost limit, reports and returns the field
--          that limits lacks.
--        name_of(field): the group of a limit; "*" for all groups, "" for the queue, nil if the field is no limit.
--        unreadable(field, text, mended): reports rules that cannot be read; in a repair only if mended(field) is true.

-- Returns how many limits of groups have a copy, and true if the queue's limit has a copy.
local function copies_of_limits()
  local names, _, copied = settings()
  local others = { 'kept.shut_until' }
  for i = 1, #TOTALS, 2 do
    others[#others + 1] = TOTALS[i]
  end
  local count, has_copy = redis.call('HLEN', stats), false
  for i, name in ipairs(names) do
    count = count - (copied[i] and 1 or 0)
    has_copy = has_copy or name == 'queue_rules' and copied[i]
  end
  for _, total in ipairs(redis.call('HMGET', stats, unpack(others))) do
    count = count - (total and 1 or 0)
  end
  for _, letter in ipairs({ 'w', 'r', 'f' }) do
    for _ in pairs((counts_of(letter))) do
      count = count - 1
    end
  end
  return count, has_copy
end

local function settings_fault()
  local fault = { lost = settings_lost() }
  for i = 1, #fault.lost, 2 do
    local name, text = fault.lost[i], fault.lost[i + 1]
    if name == 'queue_rules' then
      problem('limits not in force', '', text)
    else
      problem('settings lost', name, text)
    end
    fault.format = fault.format or name == 'format'
  end
  local format, gated, fairness, partitions, turns, limited = unpack(redis.call('HMGET', conf, 'format', 'gated',
    'fairness', 'partition_count', 'turns', 'limited'))
  local tasks = redis.call('HLEN', meta) > 0
  if tasks and not string.match(format or '', '^%d+$') and not fault.format then
    fault.format = problem('settings lost', 'format', '')
  end
  if tasks and not redis.call('HGET', stats, 'pushed') then
    fault.pushed = problem('settings lost', 'pushed', 'the count of all pushes')
  end
  if fairness == 'round_robin' and not partitions and not turns then -- with partitions, turns are times
    fault.turns = problem('settings lost', 'turns', 'the count of all turns')
  end
  local queue, count = limits_there()
  local queue_noted, noted = limits_noted()
  local note = noted and queue_noted .. string.format('%.0f=', noted)
  if not gated and count + redis.call('HLEN', gates) > 0 then
    fault.gated = note or '1'
    problem('limits not in force', 'gated', 'groups have limits or are closed')
  elseif note and gated ~= note then
    fault.gated = note
    problem('settings lost', 'gated', note)
  end
  if noted and (count < noted or queue < queue_noted) then
    local copies_left, has_copy = copies_of_limits()
    if math.max(count, copies_left) < noted or queue < queue_noted and not has_copy then
      problem('limits not in force', 'limited', 'of those that were set, some are lost with their copies')
    end
  elseif limited and (not string.match(limited, '^q?%d+$') or count > noted or queue > queue_noted) then
    problem('settings lost', 'limited', queue .. string.format('%.0f', count))
  end
  return fault
end

local function name_of(field)
  local name = field == 'queue' and '' or field == 'groups' and '*' or string.match(field, '^group:([^%c]+)$')
  return name and #name <= 200 and name or nil
end

local function unreadable(field, text, mended)
  if text and not parsed(text) and (not mended or mended(field)) then
    problem('limit cannot be read', name_of(field), text)
  end
end

local function limit_lost(field, text)
  field = string.match(field, '^kept%.(group.*)$')
  if field and name_of(field) and redis.call('HEXISTS', limits, field) == 0 then
    problem('limits not in force', name_of(field), text)
    return field
  end
end
