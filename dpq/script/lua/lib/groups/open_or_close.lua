-- open_or_close: open a group, with its best task as its head in ready; or close the group until a moment.
-- Needs: now, notice, groups, heads, gate, opens, cost, pool, estimate, callers, booked, order, layout, notes
-- Gives: open_or_close(group), which does this;
--        next_at(group, headed), when the group may open, ms; `headed` is true if it has a head;
--        stirred, the groups that admit (place) still has to open or close;
--        heavy(), true if tasks need different amounts.
local stirred = {}
local weights

local function heavy()
  weights = weights or redis.call('HGET', conf, 'heavy') or '0'
  return weights == '1'
end

-- Returns when the best task of a group may run, ms. While the group is full, this is 30 s from now: then the group is
-- looked at again. If the function has looked for that task, the values of heir_of (groups) follow; the last one is
-- false if no task waits.
local function next_at(group, headed)
  local gate, cost, rank, pin = gate_of(group), '1', math.huge, nil
  local score, member, heir
  if gate.simple and not gate.rules.units and not heavy() and free_now(gate, weigh('1')) then
    return 0
  end
  if full(gate) then
    return math.max(gate.opens, now + 30000)
  end
  local kept = is_awaited(gate) and kept_from_best(gate)
  if kept then
    return kept
  end
  local pool = gate.rules.members
  if (gate[1] or gate.meters or pool) and not headed and heavy() then
    score, member, heir = heir_of(group)
    heir = heir or false
    local raw = score and redis.call('HGET', meta, id_of(member))
    cost = raw and string.match(raw, COST) or '1' -- a short record has a cost of "1", too
    rank = score and -score or rank
    pin = raw and pool and string.match(raw, PINNED)
  end
  local units = weigh(cost)
  if gate.rules.units then
    units = estimated(units, gate, gate_of(''))
  end
  local at = pool and pool_at(gate, units, rank, pin) or free_now(gate, units) and 0 or opens_at(gate, units, rank)
  return at, score, member, heir
end

local function open_or_close(group)
  local headed = redis.call('HEXISTS', groups, group) == 1
  local at = next_at(group, headed)
  local lifted = at > instant and headed
  if lifted then
    shut(group)
    at = next_at(group) -- its best task may need more, or less
  end
  if at > instant then
    redis.call('ZADD', closed, string.format('%.17g', at), group)
    notice(at - now)
  elseif redis.call('ZREM', closed, group) == 1 or lifted then
    succeed(group)
  end
end
