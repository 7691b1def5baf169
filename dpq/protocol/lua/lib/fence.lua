-- fence: only the live delivery may act, and only the first of fail, bury and release settles it.
-- Keys: meta dead
-- Needs: record
-- Gives: fence(id, token, verb), for a verb's letter that marks a settled delivery, or "": the task; or nil, and what
--        the script answers: 0 when this very call was done before, -1 when the lease is lost.
local function fence(id, token, verb)
  local raw = redis.call('HGET', meta, id)
  local task = raw and read(raw)
  if not task or task.token ~= token or token == '0' then
    return nil, -1
  elseif task.delivery == verb then
    return nil, 0
  elseif string.find(task.delivery, '[fbr]') or redis.call('ZSCORE', dead, id) then
    return nil, -1
  end
  return task
end
