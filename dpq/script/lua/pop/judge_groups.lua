-- judge_groups: apply the queue's limit and the limits of groups inside of pop.
-- Needs: now, notice, groups, step_up, gate, keep, open_or_close, prune, charge, opens, cost, pool, estimate, callers,
--        booked, turns, notes, soon, early
-- Gives: group_judge(judge_queue, settle, wanted), for two functions of the queue's limit (judge). It returns three
--        functions:
--        judge(score, member, id, cost, group, token, raw): as the judge of the queue. It returns false if the group
--          does not let the task run; if its limit refuses, the group closes, unless the task is `wanted` (wanted). For
--          a pool, the changes of the record name the member that the task runs as.
--        crown(group, frame, at, turn): gives a group without a head its next head (step_up).
--        after_all(): stores the results. To be called after the last task.
local function group_judge(judge_queue, settle, wanted)
  local closing, gone, emptied, soonest_opening = {}, {}, 0, nil
  local queue = gate_of('')

  local function close(group, at)
    end_turn(gate_of(group))
    gone[#gone + 1], closing[#closing + 1], closing[#closing + 2] = group, string.format('%.17g', at), group
    soonest_opening = math.min(soonest_opening or at, at)
  end

  local function judge(score, member, id, cost, group, token, raw)
    local gate = group ~= '' and gate_of(group)
    local units, added = weigh(cost), nil
    if queue.rules.units or gate and gate.rules.units then
      units, added = estimated(units, gate or queue, gate and queue)
    end
    local at, mate = 0, nil
    if gate and not (gate.simple and free_now(gate, units)) then
      at = full(gate) and math.max(gate.opens, now + 30000) or free_now(gate, units) and 0
        or opens_at(gate, units, -score)
      if at <= instant and gate.rules.members then
        at, mate = pool_at(gate, units, -score, string.match(raw, PINNED))
      end
      if at <= instant and (is_awaited(gate) or mate and is_awaited(mate)) then -- callers wait for either
        at = kept_for(gate, score, raw) or mate and kept_for(mate, score, raw) or at
      end
    end
    local late = at > (early.groups and horizon(gate) or instant)
    if late and not wanted then
      shut(group)
      close(group, at)
    end
    if late or gate and gate.rules.weight and not wanted and passes(gate, score, member) then
      return false
    end
    early.at[id] = at > instant and later(gate, at) or nil
    local may = judge_queue(score, member, id, cost, group, token, raw, units)
    if may and gate then
      charge(gate, units, id, token, early.at[id])
      if not gate.plain then
        goes_on(gate, member)
      end
    end
    local changes = may
    if added or #cost > 4 and string.find(cost, '~', 1, true) then
      changes = may and estimate_change(cost, added)
    end
    if may and mate then
      charge(mate, units, id, token)
      granted_to(mate)
      changes = changes == true and {} or changes
      changes.member = string.sub(mate.scope, #group + 2)
    end
    return changes
  end

  local function crown(group, frame, n, turn)
    local at, score, member, heir = next_at(group)
    if at > (early.groups and horizon(gate_of(group)) or instant) then
      close(group, at)
    elseif not step_up(group, frame, n, kept_turns[group] or turn, score, member, heir) then
      emptied = emptied + 1
      end_turn(gate_of(group))
    end
    kept_turns[group] = nil
  end

  local function after_all()
    settle()
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
    closing, gone, emptied = {}, {}, 0
  end

  return judge, crown, after_all
end
