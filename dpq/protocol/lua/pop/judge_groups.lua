-- judge_groups: apply the queue's limit and the limits of groups inside of pop.
-- Keys: ready groups closed
-- Needs: now, notice, groups, step_up, gate, keep, open_or_close, prune, charge, opens, cost, pool, estimate, callers,
--        booked, marks, order
-- Gives: group_judge(judge_queue), for the judge of the queue's limit; it returns three functions.
--        judge(score, member, id, cost, group, token, raw): as judge; false if the group lets no task run, which
--        closes it; for a group with members what is to change in the record has the member that the task runs as.
--        crown(group, frame, at): give a group without a head its next head (step_up). after_all(): to be called after
--        all of them.
local function millionths(turns) -- so that ten times 0.1 is 1
  return math.floor(turns * 1000000 + 0.5) / 1000000
end

local function group_judge(judge_queue)
  local closing, gone, emptied, soonest_opening = {}, {}, 0, nil
  local queue = gate_of('')
  local kept_turns = {} -- of groups whose weight lets them run once more in the same turn

  local function end_turn(gate)
    if gate.turn > 0 then
      gate.turn, gate.changed = 0, true
    end
  end

  local function close(group, at)
    end_turn(gate_of(group))
    gone[#gone + 1], closing[#closing + 1], closing[#closing + 2] = group, string.format('%.17g', at), group
    soonest_opening = math.min(soonest_opening or at, at)
  end

  -- With round robin a group of weight 3 runs three tasks in each of its turns, and one of weight 0.4 lets its turn
  -- pass until it has saved up a whole task. True if the turn passes.
  local function passes(gate, score, shown)
    local of_score, member, head = head_of(gate.scope)
    if shown ~= head or shown == member or gate.turn >= 1 then -- no round robin, or in its turn
      return false
    end
    gate.turn, gate.changed = millionths(gate.turn + gate.rules.weight), true
    local text = string.format('%.17g', score)
    if gate.turn < 1 and redis.call('ZCOUNT', ready, text, text) > 0 then
      lead(gate.scope, of_score, member)
      return true
    end
    return false
  end

  local function goes_on(gate, shown)
    if gate.turn > 0 then
      gate.turn, gate.changed = math.max(millionths(gate.turn - 1), 0), true
      kept_turns[gate.scope] = gate.turn >= 1 and sequence_of(shown) or nil
    end
  end

  local function judge(score, member, id, cost, group, token, raw)
    local gate = group ~= '' and gate_of(group)
    local units, added = weigh(cost), nil
    if queue.rules.units or gate and gate.rules.units then
      units, added = estimates().add(units, gate or queue, gate and queue)
    end
    local at, mate = gate and (full(gate) and math.max(gate.opens, now + 30000)
      or free_now(gate, units) and 0 or opens_at(gate, units, -score)) or 0, nil
    if at <= instant and gate and gate.rules.members then
      at, mate = pool_at(gate, units, -score, string.match(raw, PINNED))
    end
    if at <= instant and gate and (is_awaited(gate) or mate and is_awaited(mate)) then -- or some want this member
      at = callers().kept(gate, score, raw) or mate and callers().kept(mate, score, raw) or at
    end
    if at > instant then
      shut(group)
      close(group, at)
      return false
    end
    if gate and gate.rules.weight and passes(gate, score, member) then
      return false
    end
    local may = judge_queue(score, member, id, cost, group, token, raw, units)
    if may and gate then
      charge(gate, units, id, token)
      goes_on(gate, member)
    end
    local changes = may
    if added or #cost > 4 and string.find(cost, '~', 1, true) then
      changes = may and estimates().change(cost, added)
    end
    if may and mate then
      charge(mate, units, id, token)
      granted_to(mate)
      changes = changes == true and {} or changes
      changes.member = string.sub(mate.scope, #group + 2)
    end
    return changes
  end

  local function crown(group, frame, n)
    local at, score, member, heir = next_at(group)
    if at > instant then
      close(group, at)
    elseif not step_up(group, frame, n, kept_turns[group], score, member, heir) then
      emptied = emptied + 1
      end_turn(gate_of(group))
    end
    kept_turns[group] = nil
  end

  local function after_all()
    call_callers()
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
