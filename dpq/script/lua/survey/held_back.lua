-- held_back: find the closed groups with the most due tasks. It looks at 40 evenly spaced tasks of waiting, and at the
-- groups that open first: so it misses no group with more than a 40th of all waiting tasks.
-- Needs: now
-- Gives: held_back(gone), up to 8 groups, the largest first; and how many tasks of each are due. `gone` is the number
--        of closings that are over.
local LOOKS, MOST_HELD = 40, 8

local function held_back(gone)
  local due, found, total = {}, {}, redis.call('ZCARD', waiting)
  local function consider(group)
    if due[group] then
      return
    end
    local opens = tonumber(redis.call('ZSCORE', closed, group) or 0)
    due[group] = opens > instant and redis.call('ZLEXCOUNT', waiting, '[' .. group .. '\t', '(' .. group .. '\n') or 0
    if due[group] > 0 then
      found[#found + 1] = group
    end
  end
  for i = 0, math.min(total, LOOKS) - 1 do
    local rank = math.floor(i * total / math.min(total, LOOKS))
    consider(string.match(redis.call('ZRANGE', waiting, rank, rank)[1] or '', '^[^\t]*'))
  end
  for _, group in ipairs(redis.call('ZRANGE', closed, gone, gone + MOST_HELD - 1)) do
    consider(group)
  end
  table.sort(found, function(one, other)
    return due[one] > due[other] or due[one] == due[other] and one < other
  end)
  found[MOST_HELD + 1] = nil
  return found, due
end
