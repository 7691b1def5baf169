-- _limited: the queue has no limit, but some groups may have one or be closed. Only when pop meets one of those it
-- brings in what limits need, which costs it half as much again.
-- Wants: conf, limits, gates; noted, how many limits there are; succeed (_groups); limit, which sets the three anew.
-- Sets judge(score, member, id, cost, group), crown(group) and settle_all(), see _judge_groups.
local ruled, free, emptied = redis.call('EXISTS', limits) == 1, {}, 0

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

function judge(score, member, id, cost, group)
  if group == '' or is_free(group) then
    return true
  end
  limit()
  return judge(score, member, id, cost, group)
end

function crown(group)
  if not is_free(group) then
    limit()
    return crown(group)
  elseif not succeed(group) then
    emptied = emptied + 1
  end
end

function settle_all() -- as _prune, of what is left of limits that were cleared
  local drawn = emptied > 0 and redis.call('HRANDFIELD', gates, 2 * emptied, 'WITHVALUES') or {}
  for i = 1, #drawn, 2 do
    if string.byte(drawn[i + 1]) == 45 and not is_ruled(drawn[i]) then -- after "-" it says what windows have granted
      redis.call('HDEL', gates, drawn[i])
    end
  end
  if emptied > 0 and not ruled and not noted and redis.call('EXISTS', gates) == 0 then
    redis.call('HDEL', conf, 'gated')
  end
end
