-- shape: what texts of one kind have in common, to put dead letters together.
-- Gives: shape(text): its first 200 bytes, with "#" for each number; said(raw): the reason of a record's death, its
--        last error, and what stands behind that.
local shapes = {}
local function shape(text)
  local known = shapes[text]
  if not known then
    known = string.sub((string.gsub(text, '%d+', '#')), 1, 200)
    shapes[text] = known
  end
  return known
end

local function said(raw)
  local why, met, rest = string.match(raw, '^[^\t\n]*\t[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t([^\t\n\28-\31]*)([^\n]*)')
  return why or '', met or '', rest or ''
end
