-- refusals: find a task whose own request is refused again and again, so that it does not hold up its group.
-- Its note (notes, REFUSED) is "deliveries times", and a "+" if others have passed: how often it was refused as a
-- probe, which runs alone, up to that delivery. It counts while every delivery of the task is refused. From the second
-- time on the task lets others go first. If it is refused while it is no probe, one of them has opened the scope. Then
-- its next refusal as a probe counts.
-- Needs: gate, heads, notes
-- Gives: MOST_REFUSALS, after which a task is given up;
--        others_wait(gate, group), true if other tasks of the scope could run in place of a task of the group, which
--        is in no set now. In strict order none could;
--        count_refusal(task, was_probe, others), which notes a refusal of this delivery;
--        refused_alone(task), how often the task was refused as a probe, this delivery being the last time; else 0.
local MOST_REFUSALS = 5

local function refusals_until(task, delivery)
  local at, times, passed = string.match(note_of(task, REFUSED) or '', '^(%d+) (%d)(%+?)$')
  if tonumber(at) == tonumber(delivery) then
    return tonumber(times), passed == '+'
  end
  return 0, false
end

local function others_wait(gate, group)
  if gate.scope == '' then
    return redis.call('EXISTS', ready, waiting) > 0
  end
  return not gate_of(group).rules.in_order and (redis.call('HEXISTS', groups, group) == 1 or heir_of(group) ~= nil)
end

local function count_refusal(task, was_probe, others)
  local times, passed = refusals_until(task, task.deliveries - 1)
  if was_probe then
    local counts = times < 2 or passed or times > 2 and not others -- once others have passed, it may be the last one
    times, passed = math.min(times + (counts and 1 or 0), MOST_REFUSALS), false
  else
    passed = times > 1
  end
  if times > 0 then
    set_note(task, REFUSED, string.format('%s %d%s', task.deliveries, times, passed and '+' or ''))
  end
end

local function refused_alone(task)
  local times, passed = refusals_until(task, task.deliveries)
  return passed and 0 or times
end
