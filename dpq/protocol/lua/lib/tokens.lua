-- tokens: the parts of a gate that begin with a capital letter: what quotas have counted. Layout: docs/design.md,
-- "Quotas".
-- Gives: tokens_of(text): the text without those that can be read, and the counts of quotas by letter and unit.
local function tokens_of(text)
  local counts = {}
  local rest = string.gsub(text, ' ([A-Z][a-z0-9_]*):([%d.:]*)', function(name, value)
    if string.find(name, '^[HDWM]') then
      local count, start, reset, at = string.match(value, '^(%d+):(%d+):(%d+):?(%d*)$')
      counts[name] = count and { count = tonumber(count), start = tonumber(start), reset = tonumber(reset),
        next = tonumber(at) or 0 }
      return count and ''
    end
  end)
  return rest, counts
end
