-- pass_on: wake the next waiter if a ready task may run now, or if this waiter leaves a moment that it was to watch.
-- Needs: now, notice
-- Gives: pass_on(mine, at_last). `mine` is the moment that this waiter was to watch, or nil; `at_last` is the function
--        of judge, or nil.
local function pass_on(mine, at_last)
  local left = redis.call('EXISTS', ready) == 1
  if mine and mine > now and mine == tonumber(redis.call('HGET', conf, 'watched') or '') then
    redis.call('HDEL', conf, 'watched')
  end
  local at = left and at_last and at_last()
  local moment = at or mine and tonumber(redis.call('HGET', conf, 'next_event') or '')
  if left and not at then
    redis.call('ZADD', wake, '0', 'w')
  elseif mine and moment then
    watch(moment)
  end
end
