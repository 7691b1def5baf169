-- keep: store the gates that have changed. A gate that holds only grants is stored in a short form, an empty one not at
-- all.
-- Keys: conf gates
-- Needs: rules
-- Gives: keep().
local function keep()
  local fields = {}
  for scope, gate in pairs(seen.gates) do
    if gate.changed then
      local text = '- '
      if gate.opens > 0 or gate.probe ~= '-' or gate.rules.ceiling > 0 or gate.rest and gate.rate > 0 then
        text = string.format('%.17g %s %s %.17g %.17g %.17g ', gate.opens, gate.why, gate.probe, gate.rate,
          gate.since, gate.used)
      end
      if gate.learned + gate.beside > 0 and gate.rules[1] then
        text = text .. string.format('0:%.17g:%.17g ', gate.learned, gate.beside)
      end
      text = gate.rules[1] and text .. gate.spent or text
      for i, rule in ipairs(gate.rules) do
        text = text .. rule.name .. string.format(':%.17g%s ', gate[i].paid, gate[i].more or '')
      end
      text = text .. (gate.rest or '') -- windows of rules that are lost or unreadable now
      gate.changed = false
      local hash, field = gates, scope
      if scope == '' then
        hash, field = conf, 'queue_gate'
      end
      if text == '- ' then
        redis.call('HDEL', hash, field)
      elseif scope == '' then
        redis.call('HSET', hash, field, text)
      else
        fields[#fields + 1], fields[#fields + 2] = field, text
      end
    end
  end
  if #fields > 0 then
    redis.call('HSET', gates, unpack(fields))
  end
end
