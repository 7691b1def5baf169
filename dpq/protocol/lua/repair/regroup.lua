-- regroup: a group begins anew: its head steps back, then the best of those that wait leads, or the group closes
-- until its limit lets that one run.
-- Keys: ready delayed invisible waiting groups closed meta dead
-- Needs: now, record, groups, settle, member
-- Gives: regroup(group). A head whose record does not bear it out goes; the walk through meta places that.
local function regroup(group)
  local _, member, shown = head_of(group)
  if shown then
    local id = split(ready, member)
    local task = read(redis.call('HGET', meta, id) or '')
    local of_group = not task or task.group == group
    if of_group and redis.call('ZREM', ready, shown) == 1 and task and member == task.order .. id
      and not redis.call('ZSCORE', delayed, id) and not redis.call('ZSCORE', invisible, id)
      and not redis.call('ZSCORE', dead, id) then
      redis.call('ZADD', waiting, '0', behind(group, score_of(task), member))
    end
  end
  redis.call('HDEL', groups, group)
  redis.call('ZADD', closed, stamp, group)
  settle(group)
end
