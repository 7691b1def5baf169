-- rest: if no task may run now, find when that may change, and choose the waiter that is to ask then. Another waiter
-- asks SECOND_MS later, in case the first is dead. `second` in conf holds the moment of this second waiter, or 0 if it
-- may have become the first. `asked` holds when a consumer has last asked in vain, to 5 s: so a consumer that waits is
-- seen, though it has no lease.
-- Needs: now, go_on, notice
-- Gives: rest(waiter, format, event, at_last): the reply of pop to a waiter. `event` is the next moment at which time
--        alone makes a task ready, or nil. `at_last` is the function of judge, or nil if the queue has no limit;
--        pass_on(mine, at_last), which wakes the next waiter if a ready task may run now, or if this one leaves the
--        moment that it was to watch (`mine`, or nil).
local SECOND_MS, ASKED_MS = 300, 5000

local function rest(waiter, format, event, at_last)
  local at, least
  if at_last then
    at, least = at_last()
  end
  if at then
    local left = redis.call('EXISTS', ready) == 1
    event = event and math.max(event, least or 0)
    event = left and math.min(at, event or at) or event
    if left and least and waiter ~= '' then -- before that moment it is useless to wake a waiter
      redis.call('HSET', conf, 'shut_until', string.format('%.3f', math.ceil(least * 1000) / 1000))
    end
  end
  local asked_at = math.floor(instant * 1000)
  event = event and math.max(math.ceil(event * 1000), asked_at)
  local soon, wait = event and event < asked_at + 10000000, event and event - asked_at or -1
  local notes = (format or waiter ~= '') and redis.call('HMGET', conf, 'watched', 'second', 'asked') or {}
  if format and not (math.abs(now - (tonumber(notes[3] or '') or 0)) < ASKED_MS) then
    go_on()
    redis.call('HSET', conf, 'asked', stamp)
  end
  if waiter ~= '' then
    local own = tonumber(waiter)
    local watched, second = tonumber(notes[1] or ''), tonumber(notes[2] or '')
    local mine, later = watched and watched == own, soon and event / 1000 + SECOND_MS
    local second_lives = second and second > now and second ~= own and later and second <= later
    local appoint = soon and later < now + 10000 and not second_lives
    if soon and watched and not mine and watched > now and watched * 1000 <= event then
      wait = appoint and -(wait + SECOND_MS * 1000) or -1
    elseif soon then
      redis.call('HSET', conf, 'watched', string.format('%.3f', event / 1000))
      redis.call('ZREM', wake, 'e') -- this waiter watches: an old marker is of no use
      appoint = appoint and mine and second == 0 and redis.call('ZADD', wake, string.format('%.3f', later), 'd')
    elseif mine then
      redis.call('HDEL', conf, 'watched')
    end
    if appoint then
      redis.call('HSET', conf, 'second', string.format('%.3f', later))
    end
  end
  return { 0, wait, asked_at, format and 10000 or nil }
end

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
