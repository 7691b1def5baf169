-- of_family: read the settings of a queue's family.
-- Keys: conf shared
-- Needs: kinship
-- Gives: of_family(settings), which replaces in the settings of pop those that are the family's. It returns the
--        reply of pop if the client does not know all queues of the family, or the family not this queue; else nil.
local function of_family(settings)
  if shared ~= conf then
    settings[3], settings[4], settings[5], settings[7], settings[10], settings[13] = unpack(redis.call('HMGET', shared,
      'gated', 'queue_rules', 'queue_gate', 'token', 'limited', 'family'))
  end
  local knows = knows_kin(settings[13]) and (not settings[9] or is_listed(settings[13]))
  return not knows and { -20 } or nil
end
