-- past: count the members of a sorted set whose moment has come. It needs no more than ZRANGE: viewers have no ZCOUNT.
-- Needs: now
-- Gives: past(set), by some 20 looks at most; moment_at(set, rank), the score there, or nil.
local function moment_at(set, rank)
  return tonumber(redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2] or '')
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
