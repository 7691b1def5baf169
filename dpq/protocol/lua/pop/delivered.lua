-- delivered: note the deliveries of a pop in the trail.
-- Needs: trail
-- Gives: note_deliveries(metas), for the ids and records of take.
local function note_deliveries(metas)
  for i = 1, #metas, 2 do
    local record = metas[i + 1]
    note('delivered', group_in(record), string.match(record, '^[^\n]*\28%d+ ([^\t\n]*)') or '', metas[i],
      'delivery ' .. string.match(record, '^%d+ %d+ (%d+)'))
  end
end
