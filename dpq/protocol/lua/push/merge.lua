-- merge: what a push does to the task that holds its key.
-- Keys: invisible payload meta dead conf
-- Needs: now, record, body, begin, renew, revise, recost, marks
-- Gives: merge(id, spec, body), for the modes k, u, r and a of push.
local function merge(id, spec, body)
  local task = read(redis.call('HGET', meta, id) or '')
  if not task then
    return
  end
  local max, cost, wait, priority, expires, residual, mode, schedule, options = string.match(spec,
    '^f(%d+) (%d%S*) (%d+) (%S+) (%d+) (%d+) (%l)([^\t\30\31]*)([^\t]*)')
  expires = expires == '0' and '0' or string.format('%.0f', now + expires)
  local died = redis.call('ZSCORE', dead, id)
  if mode == 'r' then
    local old, new = tonumber(task.priority), tonumber(priority)
    if not died and (new > old or new == old and residual .. string.sub(task.order, -15) < task.order) then
      revise(id, task, priority, residual)
    end
  elseif mode ~= 'k' then
    task.inline = inline(body, redis.call('HGET', conf, 'payloads'))
    if task.inline == '' then
      redis.call('HSET', payload, id, body)
    else
      redis.call('HDEL', payload, id)
    end
    recost(task, cost)
    task.options = options .. (string.match(task.options, '[\28\29].*$') or '') -- as in notes
    if cost ~= '1' or string.find(options, PIN, 1, true) then
      redis.call('HSET', conf, 'heavy', '1')
    end
    if schedule ~= '' then
      task.schedule, wait, expires = begin(schedule, wait, mode == 'u' and not died and task.schedule)
      task.expires = wait and expires or task.expires
    elseif mode == 'u' then
      task.schedule = ''
    end
    if mode == 'a' and redis.call('ZSCORE', invisible, id) then
      task.again, task.max, task.expires = string.format('%.0f', now + wait), max, expires
    elseif died then
      renew(task, wait)
      task.max, task.expires = max, expires
    elseif mode == 'a' then -- a late ack of the old payload must not remove the new one
      task.token, task.delivery, task.again = 0, '-', 0
    end
    revise(id, task, priority, residual, wait)
  end
end
