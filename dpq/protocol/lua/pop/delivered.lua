-- delivered: note the deliveries of a pop in the trail.
-- Needs: trail, layout, marks
-- Gives: note_deliveries(metas), for the ids and records that take has collected.
local function note_deliveries(metas)
  for i = 1, #metas, 2 do
    local record = metas[i + 1]
    note('delivered', string.match(record, GROUP), string.match(record, RAN_AS) or '', metas[i],
      'delivery ' .. string.match(record, '^%d+ %d+ (%d+)'))
  end
end
