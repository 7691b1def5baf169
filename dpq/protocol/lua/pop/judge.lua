-- judge: apply the queue's own limit inside of pop; charge a limit for a task.
-- Keys: ready invisible tracked
-- Needs: now, pace, gate, opens, cost, refunds, estimate, moving
-- Gives: charge(gate, cost, id, token, moment), for that moment, or for now; queue_judge(), which returns two
--        functions. judge(score, member, id, cost, group, token, raw, units): if the task may run, and has paid, true,
--        or what is to change in its record (estimate);
--        nil if the queue lets no task run. at_last(): when the queue's limit lets the next task run, and when the
--        lightest one; nil means now. Call keep after all of them.

-- What a clean window adds to a learned rate. Near the rate of the last 429, little; far below it, a quarter of
-- the way; above it, where nothing was refused yet, three times as far beyond it as before. Source:
-- docs/design.md, "Learning".
local function gain(gate, rules)
  local rate, step, last = gate.rate, rules.step, gate.learned
  if last == 0 then
    return math.max(step, (rate - rules[1].rate) / 2)
  elseif rate >= last then
    return math.max(step / 32, (rate - last) * 2)
  elseif rate >= last * 0.875 then
    return math.max(step / 32, (last - rate) / 16)
  end
  return math.max(step, (last - rate) / 4)
end

local function charge(gate, cost, id, token, moment)
  local rules = gate.rules
  if rules.ceiling > 0 and gate[1] then
    if instant >= gate.since + rules[1].per then -- a window has ended without a 429, and was used
      if gate.since > 0 and gate.used * 2 >= gate.rate then
        gate.rate, gate.beside = math.min(rules.ceiling, gate.rate + gain(gate, rules)), gate.rate
        pace(gate[1], rules[1], gate.rate)
      end
      gate.since, gate.used = instant, 0
    end
    gate.used = gate.used + math.min(cost[rules[1].unit] or 0, gate[1].most)
  end
  for i, window in ipairs(gate) do
    local rule = rules[i]
    local units = math.min(cost[rule.unit] or 0, window.most)
    if rule.moving then
      moving().charge(gate, i, cost[rule.unit] or 0, token, moment)
    else
      if (window.more or rule.unit ~= '') and (units > 0 or window.owed > window.paid) then
        refunds().granted(gate, i, token, moment)
      end
      window.paid = units > 0 and math.max(window.owed, moment or instant) + time_of(units, window) or window.owed
      window.owed = window.paid
    end
    window.granted, gate.changed = window.granted + units, true
  end
  if gate.observed then
    for unit, budget in pairs(gate.observed) do
      local units = cost[unit] or 0
      if budget.interval then
        budget.ends = math.max(budget.ends, moment or instant) + units * budget.interval
      else
        budget.left = math.max(0, budget.left - units)
      end
      gate.changed = true
    end
  end
  if gate.quotas then
    gate.quotas.charge(cost)
  end
  if gate.opens > 0 then
    gate.opens, gate.why, gate.changed = 0, '-', true
  end
  if gate.probe == 'p' then
    gate.probe, gate.busy, gate.changed = id, true, true
  end
  gate.out = gate.out and gate.out + 1
  local counts = rules.concurrency > 0 or gate.observed and string.byte(id) ~= 126 -- no permit
  if gate.busy or counts and gate.scope ~= '' then
    redis.call('ZADD', tracked, '0', gate.scope .. '\t' .. id)
  end
end

local function queue_judge()
  local queue, blocked = gate_of(''), 0
  local rules = queue.rules
  local counts = rules[1] or rules.quotas or rules.concurrency > 0 or rules.unreadable
  local idle = not (counts or queue.observed or queue.rest) and queue.opens == 0 and queue.probe == '-'

  -- `units` is the cost with what is reserved, if the group's judge has looked.
  local function judge(score, _, id, cost, _, token, _, units)
    local added
    if units and idle then
      return true
    elseif not units then
      units = weigh(cost)
      if queue.rules.units then
        units, added = estimates().add(units, queue)
      end
    end
    local at = free_now(queue, units) and 0 or opens_at(queue, units, -score)
    if at > instant or full(queue) then
      blocked = at
      return nil
    end
    charge(queue, units, id, token)
    return not (added or #cost > 4 and string.find(cost, '~', 1, true)) or estimates().change(cost, added)
  end

  local function at_last()
    local least = opens_at(queue, weigh('1'), math.huge)
    if full(queue) and redis.call('EXISTS', ready) == 1 then
      redis.call('ZADD', tracked, '0', '\t') -- the script that ends a lease wakes a waiter
      local lease = redis.call('ZRANGE', invisible, '0', '0', 'WITHSCORES')[2]
      least = math.max(least, tonumber(lease or now + 30000))
    end
    local at = math.max(blocked, least)
    return at > instant and at or nil, least > instant and least or nil
  end

  return judge, at_last
end
