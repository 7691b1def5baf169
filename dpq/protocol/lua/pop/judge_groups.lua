-- judge_groups: apply the queue's limit and the limits of groups inside of pop.
-- Keys: groups closed
-- Needs: now, notice, groups, gate, keep, open_or_close, prune, judge, opens, cost, estimate
-- Gives: group_judge(judge_queue), for the judge of the queue's limit; it returns three functions.
--        judge(score, member, id, cost, group, token): as judge; false if the group lets no task run, which closes it.
--        crown(group): give a group without a head its next head. after_all(): to be called after all of them.
local function group_judge(judge_queue)
  local closing, gone, emptied, soonest_opening = {}, {}, 0, nil
  local queue = gate_of('')

  local function close(group, at)
    gone[#gone + 1], closing[#closing + 1], closing[#closing + 2] = group, string.format('%.17g', at), group
    soonest_opening = math.min(soonest_opening or at, at)
  end

  local function judge(score, member, id, cost, group, token)
    local gate = group ~= '' and gate_of(group)
    local units, added = weigh(cost), nil
    if queue.rules.units or gate and gate.rules.units then
      units, added = estimates().add(units, gate or queue, gate and queue)
    end
    local at = gate and (full(gate) and math.max(gate.opens, now + 30000) or opens_at(gate, units, -score)) or 0
    if at > instant then
      shut(group)
      close(group, at)
      return false
    end
    local may = judge_queue(score, member, id, cost, group, token, units)
    if may and gate then
      charge(gate, units, id, token)
    end
    return may and (not (added or string.find(cost, '~', 1, true)) or estimates().change(cost, added))
  end

  local function crown(group)
    local at = next_at(group)
    if at > instant then
      close(group, at)
    elseif not succeed(group) then
      emptied = emptied + 1
    end
  end

  local function after_all()
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

  return judge, crown, after_all
end
