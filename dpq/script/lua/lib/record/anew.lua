-- anew: begin a task anew. The task is due at a moment, behind all tasks of its priority.
-- Needs: now, draw
-- Gives: anew(task, at), which returns the ms from now until that moment;
--        run_again(task, lapsed), for a run that has died: if its task was pushed again meanwhile (`rerun`), it begins
--        anew, and the ms until then are returned; else nil. Unless its lease lapsed, its token still fences: a
--        repeated call finds its work done, and a late ack finds nothing;
--        renew(task, wait), as if the task had never been popped. It is first due `wait` ms from now.
local function renew(task, wait)
  task.token, task.attempts, task.deliveries, task.deferrals, task.delivery, task.again = 0, 0, 0, 0, '-', 0
  task.options = string.gsub(task.options, '\24(%d+) %d+', '\24%1 0') -- its lapses
  task.enqueued, task.wait, task.reason, task.error = stamp, wait, '', ''
end

local function anew(task, at)
  local place = draw(stats, 'pushed', 1) + 1
  local settings = redis.call('HMGET', conf, 'order', 'fairness')
  if settings[2] == 'round_robin' then
    place = draw(conf, 'turns', 1) + 1
  end
  if settings[1] == 'lifo' then
    place = 999999999999999 - place
  end
  task.order = string.sub(task.order, 1, -16) .. string.format('%015.0f', place)
  local expires_in = string.match(task.schedule, '^\t%l (%d+)')
  if expires_in and task.again == '0' then
    task.expires = expires_in == '0' and '0' or string.format('%.0f', at + expires_in)
  end
  renew(task, at - now)
  return at - now
end

local function run_again(task, lapsed)
  if tonumber(task.again) == 0 then
    return nil
  end
  local token, delivery = task.token, task.delivery
  local wait = anew(task, math.max(task.again, now))
  if not lapsed then
    task.token, task.delivery, task.again = token, delivery, stamp
  end
  return wait
end
