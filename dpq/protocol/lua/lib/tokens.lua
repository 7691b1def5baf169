-- tokens: the parts of a gate that begin with a capital letter: H, D, W and M and a unit, what a quota has counted; O
-- and a unit, a budget that a host has told; E and a unit, spent values (estimate); B, what acquire has booked; L, when
-- a member of a pool was granted last; P, when the last permit was granted that has taught by a 429; T, what is left of
-- a turn; G and a window, the units that it has granted; R, the 429s of its tasks. Layout: docs/design.md, "Limits".
-- Needs: now
-- Gives: tokens_of(text): the text without those that can be read, and their values by name, or nil if it has none;
--        budgets_of(tokens), the budgets, by unit, that still hold, or nil; budget_text(unit, budget), what is left of
--        one now; is_moment_of(budget, at), true if it lets a task run at that moment, and not before;
--        spent_of(tokens), all spent values as text.
local DAY_MS = 86400000 -- no budget holds longer: else the clock was set back, or it is damage
local COUNTED = '^%d+:%d+:%d+:?%d*$'
local SOUND = { H = COUNTED, D = COUNTED, W = COUNTED, M = COUNTED, B = '^[%d.]+:[%d.]+:[%d.]+:[%d.]+:[%d.]+$',
  E = '^[:%d]+$', L = '^%d[%d.]*$', G = '^%d+$', R = '^%d+$',
  O = '^%d+:[%d.]+:?[%d.]*$', P = '^%d[%d.]*$', T = '^%d[%d.]*$' }

local function budgets_of(tokens)
  local budgets
  for name, value in pairs(tokens or {}) do
    local left, ends, interval = string.match(value, string.byte(name) == 79 and '^(%d+):([%d.]+):?([%d.]*)$' or '^$')
    if left and tonumber(ends) > instant and tonumber(ends) <= now + DAY_MS then
      budgets = budgets or {}
      budgets[string.sub(name, 2)] = { left = tonumber(left), ends = tonumber(ends), interval = tonumber(interval) }
    end
  end
  return budgets
end

local function is_moment_of(budget, at)
  if not budget.interval or at > budget.ends then
    return at == budget.ends
  end
  local units = budget.left + (at - budget.ends) / budget.interval -- that it has then
  return math.abs(units - math.floor(units + 0.5)) < 0.001
end

local function budget_text(unit, budget)
  local full = budget.interval and budget.left
  local left = full and math.floor(full - (budget.ends - instant) / budget.interval) or budget.left
  return string.format('%s:%.0f:%.0f', unit, math.max(0, left), budget.ends)
    .. (full and string.format(':%.0f:%.9f', full, budget.interval) or '')
end

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
