-- fence: let only the live delivery act. Only the first of fail, bury and release ends it.
-- Needs: record
-- Gives: fence(id, token, verb), which returns the task. Else it returns nil and the reply of the script: 0 if the same
--        verb was done before, -1 if the lease is lost, -13 if the task was cancelled (cancelled). `verb` is the letter
--        that marks an ended delivery, or "".
local function fence(id, token, verb)
  local raw = redis.call('HGET', meta, id)
  local task = raw and read(raw)
  if not raw and redis.call('ZSCORE', cancelled, token) then
    return nil, -13
  elseif not task or task.token ~= token or token == '0' then
    return nil, -1
  elseif task.delivery == verb then
    return nil, 0
  elseif string.find(task.delivery, '[fblr]') or redis.call('ZSCORE', dead, id) then
    return nil, -1
  end
  return task
end
