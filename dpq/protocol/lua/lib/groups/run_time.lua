-- run_time: replace what a group was charged for a delivery by how long the delivery ran, if groups take turns by
-- running time (shares). Until then the cost of the task has a unit "_" with what was charged, ms: "1,_~1000".
-- Needs: now, weighted, shares
-- Gives: end_run(task), which removes that unit, and returns the task: the caller stores its record, if it stays. It
--        also takes nil or false.
local function end_run(task)
  local charged = task and string.match(task.cost or '', ',_~(%d+)')
  if charged then
    local ran = instant - task.token / 1000 -- a token is the moment of its lease, us
    task.cost = string.gsub(task.cost, ',_~%d+', '')
    if ran >= 0 then -- else the clock has gone back, and the estimate stays
      ran = math.max(ran, 1)
      shares().correct(task.group, (ran - charged) / weight_of(task.group), false, ran)
    end
  end
  return task
end
