-- look: read the first tasks in ready, without taking them, to compare partitions.
-- Keys: ready
-- Needs: go_on
-- Gives: look(most, at_last): {score, order and id, ...}; nil if no task is ready, or if the queue lets none of them
--        run. `at_last` is the function of judge, or nil.
local function look(most, at_last)
  go_on()
  local first = at_last and at_last() and {} or redis.call('ZRANGE', ready, '0', most - 1, 'WITHSCORES')
  for i = 1, #first, 2 do
    first[i], first[i + 1] = first[i + 1], first[i]
  end
  return first[1] and first
end
