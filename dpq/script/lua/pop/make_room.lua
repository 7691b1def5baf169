-- make_room: call the producers for whose tasks a pop has made room.
-- Needs: producers, layout
-- Gives: make_room(metas, rotten), for these lists of take. Leased tasks make room in their groups. Tasks that became
--        dead letters, here or in the upkeep before, make room in the queue, too.
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
