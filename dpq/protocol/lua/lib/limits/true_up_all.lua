-- true_up_all: replace what finished deliveries were charged by what they have spent, and by how long they ran.
-- Needs: record, true_up, run_time
-- Gives: true_up_all(gone, gone_at, raws, reports), for the variables of ack with these names. It removes the reports.
local function true_up_all(gone, gone_at, raws, reports)
  local over = {}
  for n, id in ipairs(gone) do
    local raw = raws[gone_at[n]]
    local task = not over[id] and (reports[id] or string.find(raw, ',_~', 1, true)) and read(raw)
    if task and reports[id] then
      true_up(task, reports[id])
    end
    if task then
      end_run(task)
    end
    reports[id], over[id] = nil, true -- the call may name a task twice: its units count once
  end
end
