-- change: do what pop does seldom with the tasks that it has taken.
-- Needs: record, notes, bury, producers, layout
-- Gives: change(taken), which writes the cost and the member that the judge has chosen into the record, for the table
--        of take. Each of taken.changes is {n, token, {cost = text, member = name}}. The record is in metas[n];
--        discard(rotten), which makes dead letters of tasks that no worker can run: for each task {id, record, reason};
--        the reason is false if the record cannot be read;
--        make_room(metas, rotten), which calls producers. Leased tasks make room in their groups. Tasks that became
--        dead letters, here or in the upkeep before, make room in the queue, too.
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

local function discard(rotten)
  for _, task in ipairs(rotten) do
    local known = task[3] and read(task[2])
    if known then
      bury(task[1], known, task[3])
    else
      rescue(task[1], task[2])
    end
  end
end

local function make_room(metas, rotten)
  local vacated = { [''] = true }
  for i = 2, #metas, 2 do
    vacated[string.match(metas[i], GROUP) or ''] = true
  end
  for _, task in ipairs(rotten) do
    vacated[string.match(task[2], GROUP) or ''] = true
  end
  call_all(vacated)
end
