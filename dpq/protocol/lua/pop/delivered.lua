-- delivered: note the deliveries of a pop in the trail.
-- Needs: trail, layout
-- Gives: note_deliveries(metas), for the ids and records of take.
local function note_deliveries(metas)
  for i = 1, #metas, 2 do
    local record = metas[i + 1]
    local _, member = string.match(record, RAN_AS)
    note('delivered', string.match(record, GROUP), member or '', metas[i],
      'delivery ' .. string.match(record, DELIVERY))
  end
end
