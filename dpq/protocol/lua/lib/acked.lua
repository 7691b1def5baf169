-- acked: note in the trail which tasks an ack has finished.
-- Needs: trail, layout
-- Gives: note_acks(ids, raws, reply), for tasks and records as ack has them. The reply names the tasks that ack has not
--        finished.
local function note_acks(ids, raws, reply)
  local passed = {}
  for i = 1, #reply, 2 do
    passed[reply[i]] = true
  end
  for i, id in ipairs(ids) do
    if not passed[i] and not passed[id] then
      passed[id] = true -- an ack may name a task twice
      note('acked', string.match(raws[i], GROUP), '', id, '')
    end
  end
end
