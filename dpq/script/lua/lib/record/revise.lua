-- revise: change a stored task in place.
-- Needs: now, record, rank, place
-- Gives: revise(id, task, priority, residual, wait). A value of nil, or a priority of "", stays as it is. A
--        running task keeps its lease: only its priority changes, for its return.
local function revise(id, task, priority, residual, wait)
  local running = redis.call('ZSCORE', invisible, id)
  local moves = not running and (wait or not redis.call('ZSCORE', delayed, id))
  if moves then
    leave(id, task)
  end
  set_priority(task, priority, residual)
  if moves and wait then -- by hand: it waits for no batch and no task any more
    local options = string.gsub(task.options, '\27\1[^\23-\31]*', '')
    options = string.gsub(string.gsub(options, '\25[br][^\23-\31]*', ''), '\25%+[^\23-\31]*', '\25+')
    if options ~= task.options or now < task.enqueued + task.wait then -- the task has not been due yet
      task.wait = string.format('%.0f', math.max(now + wait - task.enqueued, 0))
    end
    task.options = options
  end
  redis.call('HSET', meta, id, write(task))
  if moves then
    put_back(id, task, tonumber(wait or 0), true)
  end
end
