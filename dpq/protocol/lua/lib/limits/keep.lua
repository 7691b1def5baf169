-- keep: store the gates that have changed. A gate that holds only grants is stored in a short form, an empty one not at
-- all.
-- Keys: conf gates tracked
-- Needs: now, rules, booked, budgets, hash_table
-- Gives: keep().
local REPEATED_MS = 120000 -- so long a 429 that a permit has met, or a reset, may be told again

local function keep()
  local fields, leased = {}, seen.leased
  if leased[1] then
    redis.call('ZADD', tracked, unpack(leased))
    seen.leased = {}
  end
  for scope, gate in pairs(seen.gates) do
    if gate.changed then
      local text = '- '
      if gate.opens > 0 or gate.probe ~= '-' or gate.rules.ceiling > 0 or gate.rest and gate.rate > 0 then
        text = string.format('%.17g %s %s %.17g %.17g %.17g ', gate.opens, gate.why, gate.probe, gate.rate,
          gate.since, gate.used)
      end
      if gate.learned + gate.beside > 0 and gate.rules[1] then
        text = text .. string.format('0:%.17g:%.17g', gate.learned, gate.beside)
          .. (gate.climb and string.format(':%.17g ', gate.climb) or ' ')
      end
      if gate.rules.own and (gate.rules[1] or gate.met > 0) then
        text = text .. string.format('R:%.0f ', gate.met)
        for i, rule in ipairs(gate.rules) do
          text = text .. string.format('G%s:%.0f ', rule.name, gate[i].granted)
        end
      end
      local booked = not gate.rest and gate.booked -- else it is in the rest
      if booked and (math.max(booked[1], booked[2], booked[3], booked[5]) > instant or forget_ended(gate)) then
        text = text .. string.format('B:%.17g:%.17g:%.17g:%.17g:%.17g ', unpack(booked))
      end
      if gate.taught + REPEATED_MS > instant and gate.rules[1] then
        text = text .. string.format('P:%.17g ', gate.taught)
      end
      if (tonumber(string.match(gate.reset, ':(%d+)$') or 0) or 0) + REPEATED_MS > instant then
        text = text .. 'Z:' .. gate.reset .. ' '
      end
      if gate.last > 0 then
        text = text .. string.format('L:%.17g ', gate.last)
      end
      if gate.turn > 0 then
        text = text .. string.format('T:%.6f ', gate.turn)
      end
      text = (gate.rules[1] or gate.rules.every) and text .. gate.spent or text
      for i, rule in ipairs(gate.rules) do
        local more = gate[i].more
        text = text .. rule.name .. (more and string.format(':%.17g%s ', gate[i].paid, more)
          or string.format(':%.17g ', gate[i].paid))
      end
      if gate.quotas then
        text = text .. gate.quotas.text()
      end
      if gate.observed then
        text = text .. budgets().write(gate.observed)
      end
      for i, rule in ipairs(gate.moves and gate.rules or {}) do
        text = rule.moving and text .. '|' .. gate[i].body or text
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
    as_table(gates, #fields >= 16 or now % 64 == 0)
  end
end
