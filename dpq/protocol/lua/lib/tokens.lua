-- tokens: the parts of a gate that begin with a capital letter: H, D, W and M and a unit, what a quota has counted; B,
-- what acquire has booked; L, when a member of a pool was granted last; T, what is left of a turn. Layout:
-- docs/design.md, "Limits".
-- Gives: tokens_of(text): the text without those that can be read, and their values by name, or nil if it has none.
local SOUND = { H = '^%d+:%d+:%d+:?%d*$', D = '^%d+:%d+:%d+:?%d*$', W = '^%d+:%d+:%d+:?%d*$', M = '^%d+:%d+:%d+:?%d*$',
  B = '^[%d.]+:[%d.]+:[%d.]+:[%d.]+:[%d.]+$', L = '^%d[%d.]*$', T = '^%d[%d.]*$' }

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
