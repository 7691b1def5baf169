-- view_of: write what limits, closings and probes of a scope allow now. The header of view describes the JSON.
-- Needs: now, moments, groups, rules, gate, meters, opens, pool, booked, counted
-- Gives: view_of(scopes), a JSON object for each scope.

-- Returns `why`. For a spent gate (s) that opens at that moment: q if a quota resets then, o if its host's budget does.
local function reason_of(gate, at, why)
  for _, meter in pairs(why == 's' and gate.meters or {}) do
    local units = meter.interval and at <= meter.ends and meter.left + (at - meter.ends) / meter.interval or 0.5
    local is_whole = math.abs(units - math.floor(units + 0.5)) < 0.001 -- the budget has one more unit then
    if is_whole or at == meter.ends or at == meter.next or at == meter.asks then
      why = not meter.rule and 'o' or why == 's' and 'q' or why
    end
  end
  return why
end

-- Writes a number as text, since cjson writes 14 digits.
local function as_text(number, form)
  return string.format(form or '%.0f', number)
end

-- Returns the fields of a gate, and when it opens.
local function seen_of(gate)
  local one, why, told = {}, '', {} -- `one`: a cost of 1 of each unit
  local view = { rate = as_text(gate.rate, '%.17g'), slack = as_text(gate.slack, '%.17g'), met = as_text(gate.met),
    permits = running(gate.scope), left = {}, granted = {}, quotas = {}, budgets = told }
  for _, window in ipairs(gate.rules) do
    one[window.unit] = 1
  end
  for _, meter in pairs(gate.meters or {}) do
    one[meter.unit] = 1
  end
  local at = opens_at(gate, one, math.huge)
  for n, window in ipairs(gate.rules) do
    view.left[n] = as_text(window.moving and window.rate - gate[n].sum
      or window.burst - math.max(0, gate[n].owed - instant) / gate[n].interval, '%.6f')
    view.granted[n] = as_text(gate[n].granted or 0)
  end
  if gate.opens > instant then
    why = gate.why
  elseif gate.rules.unreadable then
    why, at = 'u', 0
  elseif full(gate) then
    at = #gate.probe == 1 and back_at(gate) -- "-" and "p" name no running probe
    why, at = at and 'i' or #gate.probe == 1 and 'c' or 'p', at or 0
  elseif at > instant then
    why = 's'
  end
  for n, rule in ipairs(gate.rules.quotas or {}) do
    local quota = gate.meters[rule.name]
    view.quotas[n] = { as_text(quota.left), as_text(ends_of(quota)) }
  end
  for _, meter in pairs(gate.told and gate.meters or {}) do
    local missing = meter.interval and (meter.ends - instant) / meter.interval or 0
    local left, later = math.max(0, math.floor(meter.left - missing)), meter.interval and meter.left or 0
    told[#told + 1] = not meter.rule and { meter.unit, as_text(left), as_text(meter.ends - now), as_text(later),
      as_text(meter.most or 0), as_text(meter.length) } or nil
  end
  view.why = reason_of(gate, at, why)
  return view, at
end

local function view_of(scopes)
  seen.count = 2
  local texts = {}
  bare(scopes)
  for i, scope in ipairs(scopes) do
    local gate = gate_of(scope)
    local view, at = seen_of(gate)
    for _, field in ipairs(scope == '' and { 'queue' } or { 'groups', 'group:' .. scope }) do
      local rules = rules_of(field)
      if rules then
        view.field, view.rules, view.unreadable = field, rules.text, rules.unreadable
      end
    end
    if gate.rules.members then
      pool_at(gate, {}, math.huge)
      local first, reason, of_members = math.huge, '', 0
      view.members = {}
      for n, mate in ipairs(gate.mates) do
        local one, opens = seen_of(mate)
        local waits = one.why == '' and 0 or opens > 0 and opens or 8e13 -- it waits until a lease ends
        if waits < first then
          first, reason = waits, one.why
        end
        one.name, one.opens = gate.rules.members[n], as_text(opens > instant and opens or 0, '%.17g')
        view.members[n], of_members = one, of_members + one.permits
      end
      view.permits = math.max(view.permits, of_members)
      if view.why == '' then
        view.why, at = reason, first < 8e13 and first or 0
      end
    end
    local counts = string.find('sqo', view.why, 1, true) and scope ~= ''
    local later = tonumber(counts and redis.call('ZSCORE', closed, scope) or 0)
    if view.why == '' or later > at then -- the group's best task needs more than one unit
      at, view.why = later, reason_of(gate, later, later > instant and 's' or '')
    end
    view.due = redis.call('ZLEXCOUNT', waiting, '[' .. scope .. '\t', '(' .. scope .. '\n')
    if scope == '' then
      view.due = redis.call('ZCARD', waiting) + redis.call('ZCARD', ready) + past(delayed) + past(invisible)
    elseif head_of(scope) then
      view.due = view.due + 1
    end
    view.opens = as_text(at > instant and at or 0, '%.17g')
    texts[i] = cjson.encode(view)
  end
  return texts
end
