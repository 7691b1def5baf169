-- waits: find a task that waits for a batch, or for tasks, whose end will not release it; or a seen key that would
-- never be freed.
-- Needs: problem, batches, record, notes, notice
-- Gives: look_at_wait(id, raw), for the record of a task;
--        look_at_follower(entry), for an entry of followers (followed);
--        look_at_seen(key, value), for a key whose task was acked (seen).
local function waits_on(id)
  return tonumber(redis.call('ZSCORE', delayed, id) or '0') >= UNTIL_OPENED
end

local function look_at_wait(id, raw)
  local name = string.find(raw, '\27\1', 1, true) and string.match(raw, FOR_BATCH)
  if name and waits_on(id) then
    local batch = batch_of(name)
    if batch.callback ~= id or batch.state == 'f' then
      problem('waits for nothing', id, name)
    end
  end
  local _, ids = string.match(raw, WAITS)
  for each in string.gmatch(ids and waits_on(id) and ids or '', '[^\1]+') do
    if not redis.call('ZSCORE', followers, each .. '\t' .. id) then
      problem('end not noticed', id, each)
    end
  end
end

local function look_at_follower(entry)
  local ahead, id = string.match(entry, '^([^\t]+)\t(.+)$')
  local _, ids = string.match(id and redis.call('HGET', meta, id) or '', WAITS)
  if not ids or not string.find(ids .. '\1', '\1' .. ahead .. '\1', 1, true) or not waits_on(id) then
    return -- somebody has released the task by hand
  end
  local raw = redis.call('HGET', meta, ahead)
  local task = read(raw or '')
  local how = not raw and 'done' or redis.call('ZSCORE', dead, ahead) and 'dead'
  for _, each in ipairs({ 'done', 'dead', 'cancelled' }) do
    if redis.call('ZSCORE', followers, '\t' .. each .. '\t' .. ahead) then
      return -- upkeep goes on with it
    end
  end
  if how or task and not string.find(task.options, FOLLOWED) then
    problem('end not noticed', id, ahead)
  end
end

local function look_at_seen(key, value)
  local ends = string.match(value, '^[^\t]+\t(%d+)\t?[^\t]*$')
  if not ends or #ends > 16 then
    problem('bad seen key', key, value)
  elseif tonumber(redis.call('ZSCORE', recent, key) or '') ~= tonumber(ends) then
    problem('seen key would stay', key, ends)
  end
end
