-- tokens: the parts of a gate that begin with a capital letter: counts of quotas, and budgets that a host has told.
-- Layout: docs/design.md, "Limits".
-- Needs: now
-- Gives: tokens_of(text): the text without those that can be read; the counts of quotas, by letter and unit; and the
--        budgets, by unit, that still hold, or nil.
local DAY_MS = 86400000 -- no budget holds longer: else the clock was set back, or it is damage

local function tokens_of(text)
  local counts, budgets = {}, nil
  local rest = string.gsub(text, ' ([A-Z])([a-z0-9_]*):([%d.:]*)', function(letter, unit, value)
    if string.find(letter, '[HDWM]') then
      local count, start, reset, at = string.match(value, '^(%d+):(%d+):(%d+):?(%d*)$')
      counts[letter .. unit] = count and { count = tonumber(count), start = tonumber(start),
        reset = tonumber(reset), next = tonumber(at) or 0 }
      return count and ''
    elseif letter == 'O' then
      local left, ends = string.match(value, '^(%d+):(%d+)$')
      if left and tonumber(ends) > instant and tonumber(ends) <= now + DAY_MS then
        budgets = budgets or {}
        budgets[unit] = { left = tonumber(left), ends = tonumber(ends) }
      end
      return left and ''
    end
  end)
  return rest, counts, budgets
end
