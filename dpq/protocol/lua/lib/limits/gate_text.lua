-- gate_text: take the text of a gate apart, except its windows. Layout: docs/storage.md, "Gates".
-- Needs: now, tokens, meters, booked
-- Gives: read_gate(gate, text, kept), which fills in what a gate holds beside its windows. It returns the text of the
--        windows; true if the grants cannot be read; and the tokens (tokens). If `kept`, the text is not cut, and stays
--        in gate.rest. Else gate.bodies has the slots of moving windows;
--        cut_slots(text), the text without these slots, and the slots. They stand behind the rest of the text, each
--        with a "|" before it.
local function cut_slots(text)
  local bar, bodies = text and string.find(text, '|', 1, true), {}
  local plain = bar and string.sub(text, 1, bar - 1) or text
  while bar do
    local after = string.find(text, '|', bar + 1, true)
    bodies[#bodies + 1], bar = string.sub(text, bar + 1, (after or 0) - 1), after
  end
  return plain, bodies
end

local function read_gate(gate, text, kept)
  if not kept then
    text, gate.bodies = cut_slots(text)
  end
  if text and string.byte(text) ~= 45 then -- after "-" the text has no closing
    local opens, why, probe, rate, since, used, paid = string.match(text,
      '^(%d[%d.]*) ([-lh]) (%S+) (%d[%d.]*) (%d[%d.]*) (%d[%d.]*) (.*)$')
    gate.opens, gate.why, gate.probe, text = tonumber(opens or 0) or 0, why or '-', probe or '-', ' ' .. (paid or '?')
    gate.rate, gate.since, gate.used = tonumber(rate or 0) or 0, tonumber(since or 0) or 0, tonumber(used or 0) or 0
  end
  local told = text and string.find(text, ' O', 1, true)
  local spent, tokens = text and string.find(text, '[^%d.: -]'), nil -- if true, its grants are unknown
  if spent then -- unless only tokens and the names of units were found
    local plain = text
    if string.find(text, '%u') then
      plain, tokens = tokens_of(text)
    end
    spent = string.find((string.gsub(plain, ' (%d+)[a-z_][a-z0-9_]*:', ' %1:')), '[^%d.: -]')
    text, gate.booked = kept and text or plain, booked_of(tokens)
    if tokens and not kept then
      gate.spent = spent_of(tokens)
      gate.last, gate.turn = tonumber(tokens.L or 0) or 0, tonumber(tokens.T or 0) or 0
      gate.reset = tokens.Z or ''
      gate.taught, gate.met = tonumber(tokens.P or 0) or 0, tonumber(tokens.R or 0)
      gate.taught = gate.taught <= instant + MOST_AHEAD_MS and gate.taught or 0 -- else the clock was set back
    end
  end
  if kept then
    gate.rest = string.match(text or '', '^%-? ?(.*)$')
  else
    if gate.rules.quotas or told then
      hold_meters(gate, tokens, spent)
    end
    gate.changed = gate.changed or text and gate.turn + gate.last == 0 and not gate.rules[1] and gate.opens == 0
      and gate.probe == '-' and not gate.meters -- true if it may be useless
      and (tonumber(string.match(string.match(text, ' (%d[^ ]*) $') or '', ':([%d.]+)') or 0) or 0) <= instant
  end
  return text, spent, tokens
end
