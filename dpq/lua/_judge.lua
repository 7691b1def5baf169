-- _judge: limits inside of pop: whether a task that was popped may run now, and what it takes.
-- Wants: now, instant, ready, invisible, groups, closed, tracked; gate_of, pace, opens_at, full (_gate);
--        shut, succeed (_groups); next_at (_settle); notice (_notice); judge, crown, at_last (of pop).
-- Sets judge(score, member, id, cost, group): true when the task may run, and has paid; false when its
--        group may not, which is closed then; nil when the queue may not.
-- Sets crown(group), for a group whose head has gone; at_last(), to be called after all of them: gives
--        when the queue's limit lets the next task run, and when the lightest one; nil for now.
local queue, closing, gone, soonest_opening, blocked = gate_of(''), {}, {}, nil, 0

local function close(group, at)
  gone[#gone + 1], closing[#closing + 1], closing[#closing + 2] = group, string.format('%.17g', at), group
  soonest_opening = math.min(soonest_opening or at, at)
end

local function charge(gate, cost, id)
  local rules = gate.rules
  if rules.ceiling > 0 and gate[1] then
    if instant >= gate.since + rules[1].per then -- a window is over: it was clean, and it was used
      if gate.since > 0 and gate.used * 2 >= gate.rate then
        pace(gate, math.min(rules.ceiling, gate.rate + rules.step))
      end
      gate.since, gate.used = instant, 0
    end
    gate.used = gate.used + cost
  end
  for _, window in ipairs(gate) do
    window.paid = math.max(window.paid, instant) + math.min(cost, window.most) * window.interval
    gate.changed = true
  end
  if gate.probe == 'p' then
    gate.probe, gate.busy, gate.changed = id, true, true
  end
  gate.out = gate.out and gate.out + 1
  if gate.busy or rules.concurrency > 0 and gate.scope ~= '' then
    redis.call('ZADD', tracked, '0', gate.scope .. '\t' .. id)
  end
end

function judge(score, member, id, cost, group)
  local at = opens_at(queue, cost, -score)
  if at > instant or full(queue) then
    blocked = at
    return nil
  end
  local gate = group ~= '' and gate_of(group)
  if gate then
    at = full(gate) and math.max(gate.opens, now + 30000) or opens_at(gate, cost, -score)
    if at > instant then
      shut(group)
      close(group, at)
      return false
    end
    charge(gate, cost, id)
  end
  charge(queue, cost, id)
  return true
end

function crown(group)
  local at = next_at(group)
  if at > instant then
    close(group, at)
  else
    succeed(group)
  end
end

function at_last()
  if #gone > 0 then
    redis.call('HDEL', groups, unpack(gone))
    redis.call('ZADD', closed, unpack(closing))
    notice(soonest_opening - now)
  end
  keep()
  local least = opens_at(queue, 1, math.huge)
  if full(queue) and redis.call('EXISTS', ready) == 1 then
    redis.call('ZADD', tracked, '0', '\t') -- whoever ends a lease tells
    local lease = redis.call('ZRANGE', invisible, '0', '0', 'WITHSCORES')[2]
    least = math.max(least, tonumber(lease or now + 30000))
  end
  local at = math.max(blocked, least)
  return at > instant and at or nil, least > instant and least or nil
end
