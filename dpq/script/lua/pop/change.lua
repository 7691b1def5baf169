-- change: write the cost and the member that the judge of pop has chosen for a delivery into the record of its task.
-- Needs: record, notes, marks
-- Gives: change(taken), for the table of take. Each of taken.changes is {n, token, {cost = text, member = name}}. The
--        record is in metas[n], with its counts after this delivery.
local function change(taken)
  for _, each in ipairs(taken.changes) do
    local n, token, changes = unpack(each)
    local task = read(taken.metas[n])
    task.cost = changes.cost or task.cost
    if changes.member then
      set_note(task, RUNS_AS, token .. ' ' .. changes.member)
    end
    taken.metas[n] = write(task)
  end
end
