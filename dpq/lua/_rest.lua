-- _rest: nothing may run now: says when that may change, and who is to look then.
-- Wants: now, event, at, least, waiter, ready, conf. Returns from the script.
if at then
  local left = redis.call('EXISTS', ready) == 1
  event = left and at or event and math.max(event, at)
  if left and least and waiter ~= '' then -- until then there is no use in waking anybody
    redis.call('HSET', conf, 'shut_until', string.format('%.0f', math.floor(least)))
  end
end
event = event and math.max(math.ceil(event), now)
if event and waiter ~= '' and event < now + 5000 then
  local watched = tonumber(redis.call('HGET', conf, 'watched') or '')
  if watched and watched > now and watched <= event and watched ~= tonumber(waiter) then
    return { 0, -1, now }
  end
  redis.call('HSET', conf, 'watched', string.format('%.0f', event))
end
return { 0, event and event - now or -1, now }
