-- followers: release or bury the tasks that wait for a task that has ended (followed).
-- Needs: now, notice, record, notes, followed, bury
-- Gives: free_followers(most), which looks at `most` entries of followers, and returns at how many it has looked. A
--        buried task may have followers of its own: they come later in the same call, or in the next one. From here on
--        `ended` (followed) counts anew;
--        forget_waits(task), which makes a task wait for no other task.
local function forget_waits(task)
  set_note(task, AFTER, string.find(task.options, FOLLOWED) and '+' or nil)
end

-- A task that somebody has released by hand waits for no task: it has another moment, or is in another set.
local function let_go(id, follower, how)
  local task = read(redis.call('HGET', meta, follower) or '')
  local fate, ids = string.match(task and task.options or '', WAITS)
  local left, due = '', redis.call('ZSCORE', delayed, follower)
  for each in string.gmatch(ids or '', '[^\1]+') do
    left = left .. (each == id and '' or '\1' .. each)
  end
  if not ids or left == ids or tonumber(due or 0) < UNTIL_OPENED then
    return
  end
  if how ~= 'done' and fate == 'b' then
    unfollow(follower, task.options)
    forget_waits(task)
    redis.call('ZREM', delayed, follower)
    task.delivery = 'b'
    return bury(follower, task, string.format('task %s, which it waited for, %s', id, how == 'dead' and 'died'
      or 'was cancelled'))
  elseif left ~= '' then
    local plus = string.find(task.options, FOLLOWED) and '+' or ''
    set_note(task, AFTER, plus .. fate .. left)
  else -- it is due after the delay that its push has named
    local ms = tonumber(task.wait)
    task.wait = string.format('%.0f', math.max(now - task.enqueued, 0) + ms)
    forget_waits(task)
    redis.call('ZADD', delayed, now + ms, follower)
    notice(ms)
  end
  redis.call('HSET', meta, follower, write(task))
end

local function free_followers(most)
  local seen = 0
  followed.ended = 0
  while seen < most do
    local mark = redis.call('ZRANGE', followers, '0', '0')[1] or ''
    if string.byte(mark) ~= 9 then
      break
    end
    local how, id = string.match(mark, '^\t(%l+)\t(.*)$')
    local entries = id and redis.call('ZRANGEBYLEX', followers, '[' .. id .. '\t', '(' .. id .. '\n', 'LIMIT', '0',
      most - seen) or {}
    for _, entry in ipairs(entries) do
      redis.call('ZREM', followers, entry)
      let_go(id, string.sub(entry, #id + 2), how)
    end
    seen = seen + #entries
    if seen < most then
      redis.call('ZREM', followers, mark)
      seen = seen + 1
    end
  end
  return seen
end
