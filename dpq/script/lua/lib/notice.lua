-- notice: note a new event in delayed, invisible or closed. It stores `next_event` in conf: before that moment no
-- upkeep is due. If the event comes sooner than a daemon expects, it wakes one daemon. One waiting consumer watches the
-- next moment: `watched` holds that moment, and the marker `e` appoints the consumer. If there is a second watcher
-- (rest), it may take the marker, and `second` becomes 0. Every waiter asks again after 10 s, so later moments need no
-- watcher. A daemon looks at `next_event` after 5 s. The moment is stored as exactly as in the sets: a rounded moment
-- may be later.
-- Needs: now
-- Gives: watch(moment), which lets a waiting consumer watch a moment, or look now if it has come;
--        notice(ms), for an event `ms` from now;
--        UNTIL_OPENED, ms, a moment that stands for "until somebody says so": in closed, of a group that is closed by
--        hand without an end; in delayed, of a task that waits for a batch (batches) or for other tasks (followed);
--        rouse(count, shut_until), which wakes a consumer for that many ready tasks. The second is the setting: the
--        queue's limit lets no task run before that moment.
local UNTIL_OPENED = 90000000000000 -- limits/pools.py has the same number

local function watch(moment)
  if moment <= instant then -- a waiter that watches a later moment is to keep it
    return redis.call('ZADD', wake, '0', 'w')
  end
  local notes = redis.call('HMGET', conf, 'watched', 'second')
  local watched, second = tonumber(notes[1] or ''), tonumber(notes[2] or '')
  if moment < now + 10000 and (not watched or watched <= now or moment < watched) then
    moment = string.format('%.3f', math.ceil(moment * 1000) / 1000)
    redis.call('HSET', conf, 'watched', moment)
    if second and second > now then
      redis.call('HSET', conf, 'second', '0')
    end
    redis.call('ZADD', wake, moment, 'e')
  end
end

local function notice(ms)
  local known = tonumber(redis.call('HGET', conf, 'next_event') or '')
  if not known or not (now + ms >= known) then -- the stored number may be NaN
    redis.call('HSET', conf, 'next_event', string.format('%.17g', now + ms))
    if ms < 5000 then
      redis.call('ZADD', tick, '0', 'w')
    end
  end
  watch(now + ms)
end

local function rouse(count, shut_until)
  shut_until = tonumber(shut_until or 0) or 0
  if count > 0 and shut_until <= instant then
    redis.call('ZADD', wake, '0', 'w')
  elseif count > 0 then
    watch(shut_until)
  end
end
