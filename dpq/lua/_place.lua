-- _place: where a due task stands: ready, or waiting behind the head of its group.
-- Wants: ready, delayed, invisible, waiting, groups, closed, dead.
-- Gives: enter(id, task), leave(id, task), succeed(group), shut(group); admit(), to be called after
--        the last enter, which says how many tasks have become ready in this script.
local arrivals, admitted = {}, 0

local function score_of(task)
  local rate, since = string.match(task.aging, '^(.+)@(%d+)$')
  return (rate and rate * (task.enqueued + task.wait - since) / 1000 or 0) - task.priority
end

-- The member of waiting: the group, then the score as 18 hex digits that sort like the double (one for
-- the sign, 3 for the exponent, 14 for the mantissa; complemented below zero), then the ready member.
local function behind(group, score, member)
  local mantissa, exponent = math.frexp(math.abs(score))
  local sign, high, low = '8', exponent + 1100, mantissa * 2 ^ 53
  if score == 0 then
    high = 0
  elseif score < 0 then
    sign, high, low = '7', 4095 - high, 2 ^ 53 - low
  end
  return group .. '\t' .. string.format('%s%03x%014x', sign, high, low) .. member
end

local function lead(group, score, member)
  score = string.format('%.17g', score)
  redis.call('ZADD', ready, score, member)
  redis.call('HSET', groups, group, score .. ' ' .. member)
  admitted = admitted + 1
end

-- The best waiting task of a group becomes its head.
local function succeed(group)
  local heir = redis.call('ZRANGEBYLEX', waiting, '[' .. group .. '\t', '(' .. group .. '\n', 'LIMIT', '0', '1')[1]
  if not heir then
    redis.call('HDEL', groups, group)
    return
  end
  redis.call('ZREM', waiting, heir)
  local sign, high, low, member = string.match(heir, '^(%x)(%x%x%x)(%x%x%x%x%x%x%x%x%x%x%x%x%x%x)(.*)$', #group + 2)
  high, low = tonumber(high, 16), tonumber(low, 16)
  if sign == '8' then
    lead(group, math.ldexp(low, high - 1153), member)
  else
    lead(group, -math.ldexp(2 ^ 53 - low, 4095 - high - 1153), member)
  end
end

-- The head of a group steps back into waiting.
local function shut(group)
  local best, first = string.match(redis.call('HGET', groups, group) or '', '^(%S+) (.*)$')
  if first then
    redis.call('ZREM', ready, first)
    redis.call('ZADD', waiting, '0', behind(group, tonumber(best), first))
    redis.call('HDEL', groups, group)
  end
end

local function enter(id, task)
  local group, score, member = task.group, score_of(task), task.order .. id
  if group == '' then
    arrivals[#arrivals + 1] = score
    arrivals[#arrivals + 1] = member
    return
  end
  local best, first = string.match(redis.call('HGET', groups, group) or '', '^(%S+) (.*)$')
  best = tonumber(best)
  if best and (score < best or score == best and member < first) then
    shut(group)
    best = nil
  end
  if best or redis.call('ZSCORE', closed, group) then
    redis.call('ZADD', waiting, '0', behind(group, score, member))
  else
    lead(group, score, member)
  end
end

-- Takes a task out of whatever set holds it.
local function leave(id, task)
  if redis.call('ZREM', invisible, id) == 1 or redis.call('ZREM', delayed, id) == 1
    or redis.call('ZREM', dead, id) == 1 then
    return
  end
  local group, member = task.group, task.order .. id
  if redis.call('ZREM', ready, member) == 0 then
    redis.call('ZREM', waiting, behind(group, score_of(task), member))
  elseif group ~= '' then
    succeed(group)
  end
end

local function admit()
  if #arrivals > 0 then
    redis.call('ZADD', ready, unpack(arrivals))
    admitted, arrivals = admitted + #arrivals / 2, {}
  end
  return admitted
end
