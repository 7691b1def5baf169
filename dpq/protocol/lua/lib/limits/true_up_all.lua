-- true_up_all: replace what finished deliveries were charged by what they have spent.
-- Needs: record, true_up
-- Gives: true_up_all(gone, gone_at, raws, reports), for the variables of ack with these names. It removes the reports.
local function true_up_all(gone, gone_at, raws, reports)
  for n, id in ipairs(gone) do
    local task = reports[id] and read(raws[gone_at[n]])
    if task then
      true_up(task, reports[id])
    end
    reports[id] = nil -- the call may name a task twice: its units count once
  end
end
