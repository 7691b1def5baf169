-- rank: give a task another priority. It keeps its sequence, so its place among equal priorities.
-- Gives: set_priority(task, priority, residual), for a priority as text and what its double lost. If the priority is
--        "", or left out, nothing changes.
local function set_priority(task, priority, residual)
  if (priority or '') ~= '' then
    task.priority, task.order = priority, residual .. string.sub(task.order, -15)
  end
end
