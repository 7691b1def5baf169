-- moments: find moments in sorted sets. What viewers call needs no more than ZRANGE.
-- Needs: now
-- Gives: next_event(), the next moment at which time alone makes a task ready, ms, or nil;
--        past(set), how many members' moment has come, by some 20 looks at most;
--        over_caps(set, surplus, moment, most), the first members: those up to a moment, or as many as are too many.
local function moment_at(set, rank)
  return tonumber(redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2] or '')
end

local function next_event()
  local nearest
  for _, set in ipairs({ delayed, invisible, closed }) do
    local due = moment_at(set, '0')
    if due and (not nearest or due < nearest) then
      nearest = due
    end
  end
  return nearest
end

local function past(set)
  local low, high = 0, redis.call('ZCARD', set)
  while low < high do
    local middle = low == 0 and 0 or math.floor((low + high) / 2) -- most often the first one is yet to come
    if not ((moment_at(set, middle) or 0) > instant) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local function over_caps(set, surplus, moment, most)
  local over = redis.call('ZRANGEBYSCORE', set, '-inf', moment, 'LIMIT', '0', most)
  return surplus > #over and redis.call('ZRANGE', set, '0', math.min(surplus, most) - 1) or over
end
