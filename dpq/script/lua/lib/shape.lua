-- shape: find what the texts of dead letters have in common, to count similar ones together.
-- Gives: shape(text), the first 200 bytes of the text, with "#" for each number but the first status code, 4xx or 5xx,
--        and for a task that it names (followers);
--        said(raw), the reason of a record's death, its last error, and what stands behind that error.
local shapes = {}
local function shape(text)
  local known = shapes[text]
  if not known then
    local status
    known = string.gsub(string.gsub(text, '^task %S+, which', 'task #, which'), '%d+', function(number)
      status = status or string.match(number, '^[45]%d%d$')
      return number == status and number or '#'
    end)
    known = string.sub(known, 1, 200)
    shapes[text] = known
  end
  return known
end

local function said(raw)
  local why, met, rest = string.match(raw, '^[^\t\n]*\t[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t([^\t\n\23-\31]*)([^\n]*)')
  return why or '', met or '', rest or ''
end
