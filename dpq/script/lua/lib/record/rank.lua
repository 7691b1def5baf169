-- rank: give a task another priority. It keeps its sequence, so its place among equal priorities.
-- Needs: turn
-- Gives: set_priority(task, priority, residual), for a priority as its user wrote it, and what its double lost. If the
--        priority is "", or left out, nothing changes.
local function set_priority(task, priority, residual)
  if (priority or '') ~= '' then
    if string.find(task.priority, '^%-?0%d') then -- its queue is one whose smallest number runs first
      priority, residual = turned(priority, residual)
    end
    task.priority, task.order = priority, residual .. string.sub(task.order, -15)
  end
end
