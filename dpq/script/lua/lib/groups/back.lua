-- back: put a task that is in no set back, so that it is ready now or later.
-- Needs: now, notice, place, counted
-- Gives: back(id, task, ms, free). The task is ready `ms` from now. Until then it holds its group in order (counted),
--        unless `free` is true.
local function back(id, task, ms, free)
  if ms > 0 then
    redis.call('ZADD', delayed, now + ms, id)
    if not free then
      hold(id, task)
    end
    notice(ms)
  else
    enter(id, task)
  end
end
