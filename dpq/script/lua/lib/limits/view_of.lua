-- view_of: write what limits, closings and probes of a scope allow now. The header of view describes the eight texts.
-- Keys: ready delayed invisible waiting closed
-- Needs: now, past, groups, rules, bare, gate, meters, opens, pool, booked, back_at
-- Gives: view_of(scopes), eight texts for each scope.

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

-- Returns when a gate opens, why it lets no task run, and the fifth text: four parts with TABs between.
local function seen_of(gate)
  local one, why, left, granted = {}, '', {}, { string.format('%.0f', gate.met) } -- `one`: a cost of 1 of each unit
  local counted, host = {}, {}
  for _, window in ipairs(gate.rules) do
    one[window.unit] = 1
  end
  for _, meter in pairs(gate.meters or {}) do
    one[meter.unit] = 1
  end
  local at = opens_at(gate, one, math.huge)
  for n, window in ipairs(gate.rules) do
    left[n] = string.format('%.6f', window.moving and window.rate - gate[n].sum
      or window.burst - math.max(0, gate[n].owed - instant) / gate[n].interval)
    granted[n + 1] = string.format('%.0f', gate[n].granted or 0)
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
    counted[n] = string.format('%.0f:%.0f', quota.left, ends_of(quota))
  end
  for _, meter in pairs(gate.told and gate.meters or {}) do
    local missing = meter.interval and (meter.ends - instant) / meter.interval or 0
    host[#host + 1] = not meter.rule and string.format('%s:%.0f:%.0f:%.0f:%.0f:%.0f', meter.unit,
      math.max(0, math.floor(meter.left - missing)), meter.ends, meter.interval and meter.left or 0, meter.most or 0,
      meter.length) or nil
  end
  table.sort(host)
  left = { table.concat(left, ' '), table.concat(counted, ' '), table.concat(host, ' '), table.concat(granted, ' ') }
  return at, reason_of(gate, at, why), table.concat(left, '\t')
end

local function view_of(scopes)
  seen.count = 2
  local texts = {}
  bare(scopes)
  for _, scope in ipairs(scopes) do
    local gate = gate_of(scope)
    local at, why, left = seen_of(gate)
    local text, lines, permits, of_members = '', {}, running(scope), 0
    for _, field in ipairs(scope == '' and { 'queue' } or { 'groups', 'group:' .. scope }) do
      local rules = rules_of(field)
      text = rules and field .. '\t' .. (rules.unreadable and '?' or '') .. rules.text or text
    end
    if gate.rules.members then
      pool_at(gate, {}, math.huge)
      local first, reason = math.huge, ''
      for n, mate in ipairs(gate.mates) do
        local opens, closed_by, units = seen_of(mate)
        local waits = closed_by == '' and 0 or opens > 0 and opens or 8e13 -- it waits until a lease ends
        if waits < first then
          first, reason = waits, closed_by
        end
        lines[n] = table.concat({ gate.rules.members[n], string.format('%.17g', opens > instant and opens or 0),
          closed_by, string.format('%.17g %.17g', mate.rate, mate.slack), units, running(mate.scope) }, '\t')
        of_members = of_members + running(mate.scope)
      end
      if why == '' then
        why, at = reason, first < 8e13 and first or 0
      end
    end
    local counts = string.find('sqo', why, 1, true) and scope ~= ''
    local later = tonumber(counts and redis.call('ZSCORE', closed, scope) or 0)
    if why == '' or later > at then -- the group's best task needs more than one unit
      at, why = later, reason_of(gate, later, later > instant and 's' or '')
    end
    local due = redis.call('ZLEXCOUNT', waiting, '[' .. scope .. '\t', '(' .. scope .. '\n')
    if scope == '' then
      due = redis.call('ZCARD', waiting) + redis.call('ZCARD', ready) + past(delayed) + past(invisible)
    elseif head_of(scope) then
      due = due + 1
    end
    texts[#texts + 1], texts[#texts + 2] = text, string.format('%.17g', at > instant and at or 0)
    texts[#texts + 1] = why
    texts[#texts + 1] = string.format('%.17g %.17g', gate.rate, gate.slack)
    texts[#texts + 1] = left
    texts[#texts + 1] = string.format('%.0f %.0f', due, math.max(permits, of_members))
    texts[#texts + 1] = stamp
    texts[#texts + 1] = table.concat(lines, '\n')
  end
  return texts
end
