-- charge: charge a limit for a task or a permit. If its lease counts for a concurrency, keep stores the lease.
-- Needs: now, rules, pace, refunds, moving, booked, meters
-- Gives: charge(gate, cost, id, token, moment), for that moment, or for now if it is nil.

-- Returns what a window without a 429 adds to a learned rate. Far below the rate of the last 429 it is half of what is
-- missing; nearer to that rate, a share of that rate. Above it, where no request was refused yet, the distance from it
-- triples. Source: docs/storage.md, "Learning".
local function gain(gate, rules)
  local rate, last = gate.rate, gate.learned
  if last == 0 then
    return math.max(rules.step, (rate - rules[1].rate) / 2)
  elseif rate < last * 0.75 then
    return (last - rate) / 2
  elseif rate < last then
    return math.min(last * (gate.climb or CLIMB), last - rate)
  end
  return math.max(0, math.min(math.max(last / 16, (rate - last) * 2), gate.used * 1.5 - rate))
end

-- Charges budgets, quotas and probes of a gate, and notes a lease that counts.
local function charge_more(gate, cost, id, moment)
  if gate.meters then
    charge_meters(gate, cost, moment or instant)
  end
  if gate.opens > 0 then
    gate.opens, gate.why, gate.changed = 0, '-', true
  end
  if gate.probe == 'p' then
    gate.probe, gate.busy, gate.changed = id, true, true
  end
  if is_awaited(gate) and not is_permit(id) then -- a task took its turn
    gate.booked[3], gate.booked[4], gate.changed = 0, instant, true
  end
  local counts = gate.busy or (gate.rules.concurrency > 0 or gate.told) and gate.scope ~= ''
  if counts and not is_permit(id) then
    local leased, n = seen.leased, #seen.leased
    leased[n + 1], leased[n + 2] = '0', gate.scope .. '\t' .. id
  end
end

local function charge(gate, cost, id, token, moment)
  local rules, at = gate.rules, moment or instant
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
  for i = 1, #rules do
    local rule, window = rules[i], gate[i]
    local units = cost[rule.unit] or 0
    units = units > window.most and window.most or units
    if rule.moving then
      charge_moving(gate, i, cost[rule.unit] or 0, token, moment)
    else
      if (window.more or rule.unit ~= '') and (units > 0 or window.owed > window.paid) then
        note_grant(gate, i, token, moment)
      end
      pay_window(window, units, at)
    end
    window.granted, gate.changed = window.granted and window.granted + units, true
  end
  gate.out = gate.out and gate.out + 1
  if rules.concurrency > 0 and gate.scope ~= '' or not gate.plain then
    charge_more(gate, cost, id, moment)
  end
end
