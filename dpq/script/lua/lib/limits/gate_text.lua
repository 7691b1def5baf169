-- gate_text: take the text of a gate apart, except its windows. Layout: docs/storage.md, "Gates".
-- Needs: now, meters, booked
-- Gives: read_gate(gate, text, kept), which fills in what a gate holds beside its windows. It returns the text of the
--        windows; true if the grants cannot be read; and the values of its tokens by name. If `kept`, the text is not
--        cut, and stays in gate.rest. Else gate.bodies has the slots of moving windows.

-- The tokens begin with a capital letter. H, D, W and M and a unit: what a quota has counted. O and a unit: a budget
-- that a host has told (meters). E and a unit: spent values (estimate). B: what acquire has booked. L: when a member of
-- a pool was granted last. P: when the last permit that has taught by a 429 was granted. Z: when the gate began anew
-- (reset). T: what is left of a turn. G and a window: the units that the window has granted. R: the 429s of the group's
-- tasks. N: the closings in a row.
local COUNTED = '^%d+:%d+:%d+:%d+$'
local SOUND = { H = COUNTED, D = COUNTED, W = COUNTED, M = COUNTED, B = '^[%d.]+:[%d.]+:[%d.]+:[%d.]+:[%d.]+$',
  E = '^[:%d]+$', L = '^%d[%d.]*$', G = '^%d+$', N = '^%d+$', R = '^%d+$',
  O = '^%d+:[%d.]+:[%d.]+:%d+:%d*:[%d.]*:[%d.]*$', P = '^%d[%d.]*$', T = '^%d[%d.]*$',
  Z = '^%d+:%d+$' }

-- Returns all spent values as text.
local function spent_of(tokens)
  local rows = ''
  for name, value in pairs(tokens or {}) do
    rows = string.byte(name) == 69 and rows .. name .. ':' .. value .. ' ' or rows
  end
  return rows
end

-- Returns the text without the tokens that can be read, and their values by name, or nil if the text has none.
local function tokens_of(text)
  local tokens
  local plain = string.gsub(text, ' ([A-Z])([a-z0-9_]*):([%d.:]*)', function(letter, unit, value)
    local sound = SOUND[letter] and string.find(value, SOUND[letter])
    if sound then
      tokens = tokens or {}
      tokens[letter .. unit] = value
    end
    return sound and ''
  end)
  return plain, tokens
end

-- Returns the text without the slots of moving windows, and the slots. They stand at its end, each behind a "|".
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
      gate.reset, gate.row = tokens.Z or '', tonumber(tokens.N or 0) or 0
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
