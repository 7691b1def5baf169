-- kinship: compare the queues of a family that a client knows with those that the head lists.
-- Keys: conf kin
-- Gives: knows_kin(listed), true if these are the same. `listed` is `family` of the head's conf, or nil;
--        is_listed(listed), true if this queue is one of them, or in no family.
local function knows_kin(listed)
  local known = {}
  for i = 1, #(kin or known), 4 do
    known[#known + 1] = kin[i]
  end
  return table.concat(known, '\n') == (listed or '')
end

local function is_listed(listed)
  return not kin or string.find('\n' .. (listed or '') .. '\n', '\n' .. conf .. '\n', 1, true) ~= nil
end
