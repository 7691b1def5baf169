-- limited: judge tasks if the queue has no limit, but some groups may have a limit or be closed. It loads the functions
-- of limits only if pop meets such a group, since they make pop half as slow again.
-- Keys: conf limits gates
-- Needs: now, step_up, early
-- Gives: free_judge(limit): three functions as group_judge returns them (judge_groups). `limit`
--        makes the functions of limits.
local function free_judge(limit)
  local ruled, free, emptied = redis.call('EXISTS', limits) == 1, {}, 0
  local limited -- the three functions of group_judge, once a group has a limit

  local function is_ruled(group)
    local rules = ruled and redis.call('HMGET', limits, 'groups', 'group:' .. group)
    return rules and (rules[1] or rules[2])
  end

  local function is_free(group)
    if free[group] == nil then
      free[group] = not is_ruled(group) and redis.call('HEXISTS', gates, group) == 0
    end
    return free[group]
  end

  local function judge(score, member, id, cost, group, token, raw)
    if not limited and (group == '' or is_free(group)) then
      return not early.only or nil
    end
    limited = limited or { limit() }
    return limited[1](score, member, id, cost, group, token, raw)
  end

  local function crown(group, frame, at, turn)
    if limited or not is_free(group) then
      limited = limited or { limit() }
      limited[2](group, frame, at, turn)
    elseif not step_up(group, frame, at, turn) then
      emptied = emptied + 1
    end
  end

  local function after_all() -- removes gates of cleared limits, as prune does
    if limited then
      return limited[3]()
    end
    local drawn = emptied > 0 and redis.call('HRANDFIELD', gates, 2 * emptied, 'WITHVALUES') or {}
    for i = 1, #drawn, 2 do
      local text, ends = drawn[i + 1], 0
      for moment, reset, most in string.gmatch(text, ' O[a-z0-9_]*:%d+:(%d+)[.%d]*:(%d+)[.%d]*:%d+:(%d*)') do
        ends = math.max(ends, most == '' and moment or reset + 3600000) -- a budget holds without a limit (meters)
      end
      -- Behind "-" stand the grants of the windows. The rules of a member are those of its group. A gate with booked
      -- units (B) is left to prune.
      if string.byte(text) == 45 and ends <= instant and not string.find(text, ' B', 1, true)
        and not is_ruled(string.match(drawn[i], '^[^\t]*')) then
        redis.call('HDEL', gates, drawn[i])
      end
    end
    if emptied > 0 and not ruled and redis.call('EXISTS', gates) == 0 then
      redis.call('HDEL', conf, 'gated')
    end
  end

  return judge, crown, after_all
end
