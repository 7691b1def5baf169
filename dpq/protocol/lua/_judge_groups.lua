-- _judge_groups: the same, with the limits of groups.
-- Wants: now, instant, closed, groups; may_run, charge, queue (_judge); gate_of, opens_at, full (_gate); shut,
--        succeed (_groups); next_at (_settle); keep (_keep); prune (_prune); notice (_notice).
-- Sets judge(score, member, id, cost, group): false, too, when the group lets no task run: it is closed then.
-- Sets crown(group), for a group whose head has gone; settle_all().
local closing, gone, emptied, soonest_opening = {}, {}, 0, nil

local function close(group, at)
  gone[#gone + 1], closing[#closing + 1], closing[#closing + 2] = group, string.format('%.17g', at), group
  soonest_opening = math.min(soonest_opening or at, at)
end

function judge(score, member, id, cost, group)
  local gate = group ~= '' and gate_of(group)
  local at = gate and (full(gate) and math.max(gate.opens, now + 30000) or opens_at(gate, cost, -score)) or 0
  if at > instant then
    shut(group)
    close(group, at)
    return false
  elseif not may_run(score, cost) then
    return nil
  end
  charge(queue, cost, id)
  if gate then
    charge(gate, cost, id)
  end
  return true
end

function crown(group)
  local at = next_at(group)
  if at > instant then
    close(group, at)
  elseif not succeed(group) then
    emptied = emptied + 1
  end
end

function settle_all()
  if #gone > 0 then
    redis.call('HDEL', groups, unpack(gone))
    redis.call('ZADD', closed, unpack(closing))
    notice(soonest_opening - now)
  end
  keep()
  if emptied > 0 then
    prune(2 * emptied)
  end
end
