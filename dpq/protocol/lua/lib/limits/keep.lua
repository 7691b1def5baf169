-- keep: store the gates that have changed, and the leases that were charged. A gate that holds only grants is stored in
-- a short form. An empty gate is not stored.
-- Keys: conf gates tracked
-- Needs: now, rules, text_of, hash_table
-- Gives: keep(), to be called after the last change of a gate.
local function keep()
  local fields, n = {}, 0
  if seen.leased[1] then
    redis.call('ZADD', tracked, unpack(seen.leased))
    seen.leased = {}
  end
  for scope, gate in pairs(seen.gates) do
    if gate.changed then
      local text = text_of(gate)
      gate.changed = false
      if text == '- ' then
        redis.call('HDEL', scope == '' and conf or gates, scope == '' and 'queue_gate' or scope)
      elseif scope == '' then
        redis.call('HSET', conf, 'queue_gate', text)
      else
        fields[n + 1], fields[n + 2], n = scope, text, n + 2
      end
    end
  end
  if n > 0 then
    redis.call('HSET', gates, unpack(fields))
    as_table(gates, n >= 16 or now % 64 == 0)
  end
end
