-- _fence: only the live delivery may act, and only the first of fail, bury and release settles it.
-- Wants: id, token, verb (the letter that marks a settled delivery, or ""), meta, dead; read (_record).
-- Gives: task. Returns from the script: 0 when this very call was done before, -1 when the lease is lost.
local task = redis.call('HGET', meta, id)
task = task and read(task)
if not task or task.token ~= token or token == '0' then
  return -1
elseif task.delivery == verb then
  return 0
elseif string.find(task.delivery, '[fbr]') or redis.call('ZSCORE', dead, id) then
  return -1
end
