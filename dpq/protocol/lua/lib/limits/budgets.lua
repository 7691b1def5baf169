-- budgets: keep what hosts have reported to be left of their limits, by unit, as a gate holds it. Layout:
-- docs/storage.md, "Budgets".
--
-- Needs: now
-- Gives: budgets(), which makes functions when it is first called:
--        read(tokens), the budgets that still hold, or nil;
--        write(observed), the tokens of such budgets;
--        describe(unit, budget), what is left of a budget now, as text;
--        at(budget, units), when a budget lets a task run, ms, or 0;
--        is_moment(budget, at), true if the budget lets a task run at that moment and not before;
--        charge(observed, cost, moment), true if a budget says that nothing is left, and the task runs to ask the host
--        anew;
--        ends(observed), until when acquire may book units, ms;
--        kept_until(budget), until when a budget is kept, ms.
local budgeting

local function budgets()
  if budgeting then
    return budgeting
  end
  budgeting = {}
  local DAY_MS = 86400000 -- a reset farther away is damage, or the clock was set back
  local KEPT_MS = 3600000 -- some hosts are asked less than once in each of their windows

  function budgeting.kept_until(budget)
    return budget.size and budget.reset + KEPT_MS or budget.ends
  end

  -- At its reset, and then after each of its windows, a budget has the whole limit again.
  local function renew(budget, after)
    local size, length, reset = string.match(after or '', '^(%d+):(%d+):([%d.]+)$')
    budget.size, budget.length, budget.reset = tonumber(size), tonumber(length), tonumber(reset)
    if size and budget.ends <= instant and instant < budgeting.kept_until(budget) then
      budget.ends = budget.ends + (math.floor((instant - budget.ends) / budget.length) + 1) * budget.length
      budget.left, budget.asks = budget.size, nil
    end
  end

  function budgeting.read(tokens)
    local observed
    for name, value in pairs(tokens or {}) do
      local left, ends, interval, asks = string.match(value,
        string.byte(name) == 79 and '^(%d+):([%d.]+):?([%d.]*):?([%d.]*)$' or '^$')
      if left then
        local unit, budget = string.sub(name, 2), { left = tonumber(left), ends = tonumber(ends),
          interval = tonumber(interval), asks = tonumber(asks) }
        renew(budget, tokens['A' .. unit])
        if budget.ends > instant and budget.ends <= now + DAY_MS then
          observed = observed or {}
          observed[unit] = budget
        end
      end
    end
    return observed
  end

  function budgeting.write(observed)
    local text = ''
    for unit, budget in pairs(observed) do
      text = text .. string.format('O%s:%.0f:%.17g', unit, budget.left, budget.ends)
      if budget.interval or budget.asks then
        text = text .. ':' .. (budget.interval and string.format('%.9f', budget.interval) or '')
          .. (budget.asks and string.format(':%.17g', budget.asks) or '')
      end
      text = text .. (budget.size and string.format(' A%s:%.0f:%.0f:%.17g ', unit, budget.size, budget.length,
        budget.reset) or ' ')
    end
    return text
  end

  function budgeting.describe(unit, budget)
    local full, left = budget.interval and budget.left, budget.left
    left = full and math.max(0, math.floor(full - (budget.ends - instant) / budget.interval)) or left
    return string.format('%s:%.0f:%.0f:%.0f:', unit, left, budget.ends, budget.asks or 0)
      .. (full and string.format('%.0f:%.9f', full, budget.interval) or ':')
      .. (budget.size and string.format(':%.0f:%.0f:%.0f', budget.size, budget.length, budget.reset) or '')
  end

  local function has_at(budget, units)
    if units > 0 and budget.interval then -- the budget refills, as a window does
      return budget.ends + (math.min(units, budget.left) - budget.left) * budget.interval
    end
    return math.min(units, budget.size or units) > budget.left and budget.ends or 0
  end

  function budgeting.at(budget, units)
    return math.min(has_at(budget, units), budget.asks or math.huge)
  end

  function budgeting.is_moment(budget, at)
    if at == budget.asks or not budget.interval or at > budget.ends then
      return at == budget.asks or at == budget.ends
    end
    local units = budget.left + (at - budget.ends) / budget.interval -- what the budget has at that moment
    return math.abs(units - math.floor(units + 0.5)) < 0.001
  end

  function budgeting.charge(observed, cost, moment)
    local asks = false
    for unit, budget in pairs(observed) do
      local units = cost[unit] or 0
      if has_at(budget, units) > moment then
        observed[unit], asks = nil, true
      elseif budget.interval then
        budget.ends = math.max(budget.ends, moment) + units * budget.interval
      else
        budget.left = math.max(0, budget.left - units)
      end
    end
    return asks
  end

  function budgeting.ends(observed)
    local first = math.huge
    for _, budget in pairs(observed) do
      first = math.min(first, budget.interval and math.huge or budget.ends, budget.asks or math.huge)
    end
    return first
  end

  return budgeting
end
