-- back: put a task that is in no set back, so that it is ready now or later.
-- Keys: delayed
-- Needs: now, notice, place
-- Gives: back(id, task, ms). The task is ready `ms` from now.
local function back(id, task, ms)
  if ms > 0 then
    redis.call('ZADD', delayed, now + ms, id)
    notice(ms)
  else
    enter(id, task)
  end
end
