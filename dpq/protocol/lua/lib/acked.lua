-- acked: note in the trail what an ack has finished.
-- Needs: trail, layout
-- Gives: note_acks(ids, raws, reply), as ack has them: the reply names those that it did not finish.
local function note_acks(ids, raws, reply)
  local passed = {}
  for i = 1, #reply, 2 do
    passed[reply[i]] = true
  end
  for i, id in ipairs(ids) do
    if not passed[i] and not passed[id] then
      passed[id] = true -- one may be named twice
      note('acked', string.match(raws[i], GROUP), '', id, '')
    end
  end
end
