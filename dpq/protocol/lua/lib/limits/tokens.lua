-- tokens: read the parts of a gate that begin with a capital letter. Layout: docs/storage.md, "Gates". The letters are:
-- H, D, W and M and a unit: what a quota has counted. O and a unit: a budget that a host has told. E and a unit:
-- spent values (estimate).
-- B: what acquire has booked. L: when a member of a pool was granted last. P: when the last permit that has taught by a
-- 429 was granted. Z: when the gate began anew (reset). T: what is left of a turn.
-- G and a window: the units that the window has granted. R: the 429s of the group's tasks.
-- Gives: tokens_of(text), the text without the tokens that can be read; and their values by name, or nil if the text
--        has none;
--        spent_of(tokens), all spent values as text.
local COUNTED = '^%d+:%d+:%d+:%d+$'
local SOUND = { H = COUNTED, D = COUNTED, W = COUNTED, M = COUNTED, B = '^[%d.]+:[%d.]+:[%d.]+:[%d.]+:[%d.]+$',
  E = '^[:%d]+$', L = '^%d[%d.]*$', G = '^%d+$', R = '^%d+$',
  O = '^%d+:[%d.]+:[%d.]+:%d+:%d*:[%d.]*:[%d.]*$', P = '^%d[%d.]*$', T = '^%d[%d.]*$',
  Z = '^%d+:%d+$' }

local function spent_of(tokens)
  local rows = ''
  for name, value in pairs(tokens or {}) do
    rows = string.byte(name) == 69 and rows .. name .. ':' .. value .. ' ' or rows
  end
  return rows
end

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
