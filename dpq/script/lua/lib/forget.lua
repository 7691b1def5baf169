-- forget: remove what is stored of a task.
-- Gives: forget(id, task), once the task has left its set; nil stands for a record that cannot be read.
local function forget(id, task)
  redis.call('HDEL', payload, id)
  redis.call('HDEL', meta, id)
  if task and task.key ~= '' then
    redis.call('HDEL', keys, task.key)
  end
end
