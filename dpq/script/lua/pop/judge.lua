-- judge: apply the queue's own limit inside of pop.
-- Needs: now, gate, keep, opens, cost, estimate, callers, booked, charge, soon, early
-- Gives: queue_judge(most), for a pop of at most `most` tasks. It returns four functions:
--        judge(score, member, id, cost, group, token, raw, units): charges a task that may run. It returns true, or the
--          changes of the task's record (estimate); nil if the queue does not let the task run, which ends the pop.
--        at_last(): when the queue's limit lets the next task run, and when a task of one unit; nil means now.
--        settle(): charges what is still owed. To be called after the last task, and before keep;
--        finish(): settles, and stores the gate.

-- Returns how many tasks of one unit may all run now. If a task of n units may run, then n tasks of one unit may, too,
-- unless a burst is smaller than n. So a single question, and a single charge, serves all of them.
local function free_together(gate, most)
  for i, rule in ipairs(gate.rules) do
    most = (rule.unit ~= '' or gate[i].more) and 0 or math.min(most, rule.burst)
  end
  return gate.simple and most > 0 and free_now(gate, { [''] = most }) and most or 0
end

local function queue_judge(most)
  local queue, blocked, kept = gate_of(''), 0, nil
  local together, taken = free_together(queue, most), 0
  local rules = queue.rules
  local counts = rules[1] or rules.concurrency > 0 or rules.unreadable
  local idle = not (counts or queue.meters or queue.rest or is_awaited(queue)) and queue.opens == 0
    and queue.probe == '-'

  local function settle()
    if taken > 0 then
      charge(queue, { [''] = taken })
    end
    together, taken = 0, 0
  end

  -- `units` is the cost with its estimates, if the judge of groups has computed it.
  local function judge(score, _, id, cost, _, token, raw, units)
    if units and idle then
      return early.at[id] and true or not early.only or nil
    elseif taken < together and cost == '1' and not (early.at[id] or early.only) then
      taken = taken + 1
      return true
    end
    settle()
    local added
    if not units then
      units = weigh(cost)
      if queue.rules.units then
        units, added = estimated(units, queue)
      end
    end
    local at, shut = early.at[id] or 0, false
    if not (queue.simple and free_now(queue, units)) then
      at = math.max(at, free_now(queue, units) and 0 or opens_at(queue, units, -score))
      shut = at > instant and (early.ms == 0 or at > horizon(queue)) or full(queue)
      kept = not shut and is_awaited(queue) and kept_for(queue, score, raw)
    end
    if shut or kept or early.only and at <= instant then
      blocked = kept or at
      return nil
    end
    early.at[id] = at > instant and later(queue, at) or nil
    charge(queue, units, id, token, early.at[id])
    return not (added or #cost > 4 and string.find(cost, '~', 1, true)) or estimate_change(cost, added)
  end

  local function at_last()
    settle()
    local least = opens_at(queue, weigh('1'), math.huge)
    if full(queue) and redis.call('EXISTS', ready) == 1 then
      redis.call('ZADD', tracked, '0', '\t') -- so the script that ends a lease wakes a waiter
      local lease = redis.call('ZRANGE', invisible, '0', '0', 'WITHSCORES')[2]
      least = math.max(least, tonumber(lease or now + 30000))
    end
    least = math.max(least, kept or 0) -- the tasks behind a kept task are worse
    local at = math.max(blocked, least)
    return at > instant and at or nil, least > instant and least or nil
  end

  local function finish()
    settle()
    keep()
  end

  return judge, at_last, settle, finish
end
