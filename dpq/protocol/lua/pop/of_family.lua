-- of_family: read the settings of a queue's family.
-- Keys: conf shared kin
-- Gives: of_family(settings), which replaces in the settings of pop those that are the family's. It returns the
--        reply of pop if the client does not know all queues of the family, else nil.
local function of_family(settings)
  if shared ~= conf then
    settings[3], settings[4], settings[5], settings[7], settings[10], settings[13] = unpack(redis.call('HMGET', shared,
      'gated', 'queue_rules', 'queue_gate', 'token', 'limited', 'family'))
  end
  local known = {}
  for i = 1, #(kin or known), 4 do
    known[#known + 1] = kin[i]
  end
  return table.concat(known, '\n') ~= (settings[13] or '') and { -20 } or nil
end
