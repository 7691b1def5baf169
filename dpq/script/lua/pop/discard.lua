-- discard: make tasks that pop has taken, but that no worker can run, dead letters.
-- Needs: record, bury
-- Gives: discard(rotten), for `rotten` of take: for each task {id, record, reason}; the reason is false if the record
--        cannot be read.
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
