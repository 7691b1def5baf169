-- text_of: write the text of a gate. Layout: docs/storage.md, "Limits".
-- Needs: now, meters, booked, closing, plain_text
-- Gives: text_of(gate), the text, which is "- " if the gate holds nothing.
local REPEATED_MS = 120000 -- how long a call for a reset, or for a 429 of a permit, may be sent again

-- Writes the part before the windows.
local function head_of_text(gate)
  local text = '- '
  if gate.opens > 0 or gate.probe ~= '-' or gate.rules.ceiling > 0 or gate.rest and gate.rate > 0 then
    text = closing(gate.opens, gate.why, gate.probe, gate.rate, gate.since, gate.used)
  end
  if gate.learned + gate.beside > 0 and gate.rules[1] then
    text = text .. string.format('0:%.17g:%.17g', gate.learned, gate.beside)
      .. (gate.climb and string.format(':%.17g ', gate.climb) or ' ')
  end
  if gate.rules.own and (gate.rules[1] or gate.met > 0) then
    text = text .. totals_of(gate)
  end
  local booked = not gate.rest and gate.booked -- `rest` has the bookings already
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
  return (gate.rules[1] or gate.rules.every) and text .. gate.spent or text
end

local function text_of(gate)
  if gate.plain then
    return plain_text(gate)
  end
  local text, rules = head_of_text(gate) .. windows_of(gate), gate.rules
  text = text .. (gate.meters and meters_text(gate) or '')
  for i, rule in ipairs(gate.moves and rules or {}) do
    text = rule.moving and text .. '|' .. gate[i].body or text
  end
  return text .. (gate.rest or '') -- what belongs to rules that are lost or unreadable now
end
