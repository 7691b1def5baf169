-- rouse: wake a consumer for pushed tasks that are ready.
-- Needs: now, notice
-- Gives: rouse(count, shut_until), for that many tasks. The second is the setting: the queue's limit lets no task run
--        before that moment.
local function rouse(count, shut_until)
  shut_until = tonumber(shut_until or 0) or 0
  if count > 0 and shut_until <= instant then
    redis.call('ZADD', wake, '0', 'w')
  elseif count > 0 then
    watch(shut_until)
  end
end
