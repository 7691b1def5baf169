-- wanted: take one task by its id, whatever stands before it in ready or in its group.
-- Needs: record, groups, heads, order, take, counted
-- Gives: take_wanted(taken, id, forced, judge, crown), for the table of take, and for the functions of limits. It takes
--        a ready or waiting task; if `forced` is "1", also a delayed one. If there is no such task, or a limit does not
--        let it run now, nothing changes. The head of a group is succeeded as in take; else the group stays as it is.
local function take_wanted(taken, id, forced, judge, crown)
  local raw = redis.call('HGET', meta, id)
  local task = raw and read(raw)
  if not task then
    return
  end
  local member, score = task.order .. id, score_of(task)
  local _, first, shown = head_of(task.group)
  local places = { ready, first == member and shown or member, waiting, behind(task.group, score, member), delayed, id }
  for i = 1, forced == '1' and 6 or 4, 2 do
    local set, name = places[i], places[i + 1]
    local at = redis.call('ZSCORE', set, name)
    if at then
      redis.call('ZREM', set, name) -- as in take, so that the limits do not see it among the tasks that wait
      local held = set == delayed and unhold(id, task)
      taken.popped = { set == ready and name or member, score_text(score) }
      take(taken, 1, 0, 1, judge and function(...)
        return judge(...) or false
      end, set == ready and crown)
      if taken.metas[1] and crown and set ~= ready and task.group ~= '' then
        taken.charged = { task.group, taken.changes and taken.changes[1][3].cost or task.cost }
      end
      if not (taken.metas[1] or taken.rotten[1]) then
        redis.call('ZADD', set, at, name)
        if held then
          hold(id, task)
        end
      end
      return
    end
  end
end
