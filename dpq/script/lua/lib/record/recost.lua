-- recost: change the cost of a task. The note of the newest delivery keeps what it was charged, for a later report of
-- what it has spent (true_up).
-- Needs: notes, marks
-- Gives: recost(task, cost).
local function recost(task, cost)
  if cost ~= task.cost and task.token ~= '0' then
    local report, charged = string.match(live_note(task, SPENT) or '', '^(%S*) ?(%S*)$')
    charged = (charged or '') ~= '' and charged or task.cost
    set_note(task, SPENT, string.format('%s %s %s', task.token, report or '', charged))
  end
  task.cost = cost
end
