-- gate: read what a scope (a group, or "" for the whole queue) allows. If the rules cannot be read, no task runs. If
-- the gate cannot be read, it counts as spent. While rules cannot be read, the windows of the gate stay
-- stored (`rest`). Layout: docs/storage.md, "Gates".
-- Needs: now, rules, pace, booked, gate_text, plain_gate, moving
-- Gives: gate_of(scope, known), the gate of a scope. The scope "group TAB member" is a member of a pool; its gate's
--        text may be given as `known`;
--        full(gate), true if no more tasks may run at once. If tasks are counted, the second value is how many more may
--        run.

local function gate_of(scope, known)
  if seen.gates[scope] then
    return seen.gates[scope]
  end
  local rules, own, text, last, gone, spent, tokens
  local group_end = string.find(scope, '\t', 1, true)
  if scope == '' then
    seen.texts = seen.texts or redis.call('HMGET', conf, 'queue_rules', 'queue_gate')
    own, text = rules_of('queue'), seen.texts[2]
  elseif group_end then
    local pool, name = rules_of('group:' .. string.sub(scope, 1, group_end - 1)), string.sub(scope, group_end + 1)
    own, text = pool and pool.members and pool.each[name], known
    if known == nil then
      text = redis.call('HGET', gates, scope)
    end
    gone = not own and not (pool and pool.unreadable)
  else
    rules, text = rules_of('groups'), redis.call('HGET', gates, scope)
    seen.count = seen.count or redis.call('HLEN', limits)
    own = seen.count > (rules and 1 or 0) and rules_of('group:' .. scope)
  end
  rules = own or rules or { concurrency = 0, ceiling = 0 }
  local parted = text and not own and group_end -- a member that its pool no longer has: its gate stays as it is
  local gate = not parted and plain_gate(scope, rules, text)
  if gate then
    seen.gates[scope] = gate
    return gate
  end
  gate = setmetatable({ scope = scope, rules = rules, gone = gone }, GATE)
  seen.gates[scope] = gate
  text, spent, tokens = read_gate(gate, text, rules.unreadable or parted)
  recall(gate, text)
  for i, rule in ipairs(rules) do
    local _, found, paid = string.find(text or '', ' ' .. rule.name .. ':([%d.]+)', last)
    local rate = rule.rate
    local window = { paid = tonumber(paid or 0) }
    window.granted = rules.own and tonumber(tokens and tokens['G' .. rule.name] or 0)
    if found then
      last, window.more = found, string.byte(text, found + 1) == 58 and string.match(text, '^[%d.:]*', found + 1) or nil
    end
    if i == 1 and rules.ceiling > 0 then -- the first window has a learned rate
      rate = gate.rate > 0 and math.max(rules.floor, math.min(rules.ceiling, gate.rate)) or rate
      gate.rate = rate
    end
    pace(window, rule, rate, gate.slack)
    gate[i] = window
    if rule.moving then
      hold_moving(gate, i, table.remove(gate.bodies, 1), spent)
    else
      owe_at_most(gate, i, spent)
    end
  end
  return gate
end

-- True if as many leases are running as the concurrency allows, or if the probe after a 429 is running.
local function full(gate)
  local scope, most = gate.scope, gate.rules.concurrency
  if most == 0 and gate.probe == '-' then
    return false
  elseif gate.probe ~= '-' and gate.probe ~= 'p' then
    local permit = is_permit(gate.probe)
    if gate.busy or permit and permit_out(gate.probe) or not permit
      and redis.call('ZSCORE', invisible, gate.probe) then
      return true
    end
    gate.probe, gate.changed = 'p', true -- it has reported nothing, so another one is the probe
    if gate.why ~= 'l' then -- as where a probe has ended (ended)
      gate.opens = math.max(gate.opens, now) -- prune counts from this time
    end
  end
  if most == 0 then
    return false
  end
  gate.out = gate.out
    or scope == '' and redis.call('ZCARD', invisible) + (gate.booked and running(scope) or 0)
    or redis.call('ZLEXCOUNT', tracked, (scope == '' and '(' or '[') .. scope .. '\t',
      '(' .. scope .. '\n')
  local out = (scope == '' or gate.out < most) and gate.out or gate.out - overdue(scope)
  return most <= out, most - out
end
