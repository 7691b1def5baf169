-- _rest: nothing may run now: says when that may change, and who is to look then.
-- Wants: now, instant, event, at, least, waiter, ready, conf. Returns from the script.
if at then
  local left = redis.call('EXISTS', ready) == 1
  event = left and at or event and math.max(event, at)
  if left and least and waiter ~= '' then -- until then there is no use in waking anybody
    redis.call('HSET', conf, 'shut_until', string.format('%.0f', math.floor(least)))
  end
end
local asked_at = math.floor(instant * 1000)
if not event then
  return { 0, -1, asked_at }
end
event = math.max(math.ceil(event * 1000), asked_at)
if waiter ~= '' and event < asked_at + 5000000 then
  local watched = tonumber(redis.call('HGET', conf, 'watched') or '')
  if watched and watched > now and watched * 1000 <= event and watched ~= tonumber(waiter) then
    return { 0, -1, asked_at }
  end
  redis.call('HSET', conf, 'watched', string.format('%.3f', event / 1000))
end
return { 0, event - asked_at, asked_at }
