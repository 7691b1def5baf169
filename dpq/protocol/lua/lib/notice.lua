-- notice: whoever adds to delayed, invisible or closed says so. Keeps conf's `next_event`, before which no upkeep can
-- be due, and tells one daemon of an event that comes sooner than it thinks. One waiting consumer is to watch the
-- next moment: `watched` names that moment, the marker `e` appoints the watcher. Who waits looks again by itself
-- every 5 s, so later moments need nobody. It is written as exactly as the moments in the sets: one that is rounded
-- may be later than they are.
-- Keys: conf wake tick
-- Needs: now
-- Gives: watch(moment), notice(ms), for an event `ms` from now.
local function watch(moment)
  local watched = tonumber(redis.call('HGET', conf, 'watched') or '')
  if moment < now + 5000 and (not watched or watched <= now or moment < watched) then
    moment = string.format('%.3f', math.ceil(moment * 1000) / 1000)
    redis.call('HSET', conf, 'watched', moment)
    redis.call('ZADD', wake, moment, 'e')
  end
end

local function notice(ms)
  local known = tonumber(redis.call('HGET', conf, 'next_event') or '')
  if not known or not (now + ms >= known) then -- or it is NaN
    redis.call('HSET', conf, 'next_event', string.format('%.17g', now + ms))
    if ms < 5000 then
      redis.call('ZADD', tick, '0', 'w')
    end
  end
  watch(now + ms)
end
