-- tokens: the parts of a gate that begin with a capital letter: H, D, W and M and a unit, what a quota has counted; O
-- and a unit, a budget that a host has told; A and a unit, what such a budget has after its reset; E and a unit, spent values (estimate); B, what acquire has booked; L, when
-- a member of a pool was granted last; P, when the last permit was granted that has taught by a 429; T, what is left of
-- a turn; G and a window, the units that it has granted; R, the 429s of its tasks. Layout: docs/design.md, "Limits".
-- Needs: now
-- Gives: tokens_of(text): the text without those that can be read, and their values by name, or nil if it has none;
--        budgets_of(tokens), the budgets, by unit, that still hold, or nil; budget_tokens(unit, budget), one as text
--        for the gate; budget_text(unit, budget), what is left of one now; is_moment_of(budget, at), true if it lets a
--        task run at that moment, and not before; KEPT_MS, so long after the last reset that was told it holds;
--        spent_of(tokens), all spent values as text.
local KEPT_MS = 3600000 -- a host may be asked less often than once in each of its windows
local budgets_of, tokens_of

do
  local DAY_MS = 86400000 -- no reset is farther away: else the clock was set back, or it is damage

  -- At the reset a budget has all of its limit again, and then after each of its windows.
  local function renew(budget, after)
    local size, length, reset = string.match(after or '', '^(%d+):(%d+):([%d.]+)$')
    budget.size, budget.length, budget.reset = tonumber(size), tonumber(length), tonumber(reset)
    if size and budget.ends <= instant and instant < budget.reset + KEPT_MS then
      budget.ends = budget.ends + (math.floor((instant - budget.ends) / budget.length) + 1) * budget.length
      budget.left, budget.asks = budget.size, nil
    end
  end

  function budgets_of(tokens)
    local budgets
    for name, value in pairs(tokens or {}) do
      local left, ends, interval, asks = string.match(value,
        string.byte(name) == 79 and '^(%d+):([%d.]+):?([%d.]*):?([%d.]*)$' or '^$')
      if left then
        local unit, budget = string.sub(name, 2), { left = tonumber(left), ends = tonumber(ends),
          interval = tonumber(interval), asks = tonumber(asks) }
        renew(budget, tokens['A' .. unit])
        if budget.ends > instant and budget.ends <= now + DAY_MS then
          budgets = budgets or {}
          budgets[unit] = budget
        end
      end
    end
    return budgets
  end
end

local function budget_tokens(unit, budget)
  local text = string.format('O%s:%.0f:%.17g', unit, budget.left, budget.ends)
  if budget.interval or budget.asks then
    text = text .. (budget.interval and string.format(':%.9f', budget.interval) or ':')
    text = text .. (budget.asks and string.format(':%.17g', budget.asks) or '')
  end
  if budget.size then
    text = text .. string.format(' A%s:%.0f:%.0f:%.17g', unit, budget.size, budget.length, budget.reset)
  end
  return text .. ' '
end

local function is_moment_of(budget, at)
  if at == budget.asks or not budget.interval or at > budget.ends then
    return at == budget.asks or at == budget.ends
  end
  local units = budget.left + (at - budget.ends) / budget.interval -- that it has then
  return math.abs(units - math.floor(units + 0.5)) < 0.001
end

local function budget_text(unit, budget)
  local full = budget.interval and budget.left
  local left = full and math.floor(full - (budget.ends - instant) / budget.interval) or budget.left
  return string.format('%s:%.0f:%.0f', unit, math.max(0, left), budget.ends)
    .. string.format(':%.0f:', budget.asks or 0)
    .. (full and string.format('%.0f:%.9f', full, budget.interval) or ':')
    .. (budget.size and string.format(':%.0f:%.0f:%.0f', budget.size, budget.length, budget.reset) or '')
end

local function spent_of(tokens)
  local rows = ''
  for name, value in pairs(tokens or {}) do
    rows = string.byte(name) == 69 and rows .. name .. ':' .. value .. ' ' or rows
  end
  return rows
end

do
  local COUNTED = '^%d+:%d+:%d+:?%d*$'
  local SOUND = { H = COUNTED, D = COUNTED, W = COUNTED, M = COUNTED, B = '^[%d.]+:[%d.]+:[%d.]+:[%d.]+:[%d.]+$',
    E = '^[:%d]+$', L = '^%d[%d.]*$', G = '^%d+$', R = '^%d+$',
    O = '^%d+:[%d.]+:?[%d.]*:?[%d.]*$', A = '^[1-9]%d*:[1-9]%d*:[%d.]+$', P = '^%d[%d.]*$', T = '^%d[%d.]*$' }

  function tokens_of(text)
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
end
