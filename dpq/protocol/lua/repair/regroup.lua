-- regroup: begin a group anew. Its head goes back to waiting; then its best task becomes the head, or the group closes
-- until its limit lets that task run.
-- Keys: ready delayed invisible waiting groups closed meta dead
-- Needs: now, record, groups, heads, score, open_or_close, member
-- Gives: regroup(group). It removes a head that does not fit its record; the walk through meta places that task.
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
  open_or_close(group)
end
