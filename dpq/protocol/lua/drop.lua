-- drop: remove the whole queue, with its tasks, settings and totals.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers history events trail batches cancelled results progress recent
--
-- Returns how many keys of the queue were stored.
-- Lost reply: safe to send again.
if shared ~= conf then -- the limits stay for the other queues of the family
  local members = {}
  for each in string.gmatch(redis.call('HGET', shared, 'family') or '', '[^\n]+') do
    members[#members + 1] = each ~= conf and each or nil
  end
  if members[2] then
    redis.call('HSET', shared, 'family', table.concat(members, '\n'))
  else -- only the head is left
    redis.call('HDEL', shared, 'family')
  end
  local cursor = '0'
  repeat -- the leases of its tasks end, and it leaves all lines
    local page = redis.call('ZSCAN', tracked, cursor, 'COUNT', '1000')
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local id = string.match(page[2][i], '([^\t]*)$')
      if redis.call('HEXISTS', meta, id) == 1 or string.find(page[2][i], ' ' .. conf .. ' ', 1, true) then
        redis.call('ZREM', tracked, page[2][i])
      end
    end
  until cursor == '0'
elseif redis.call('HGET', conf, 'family') then
  return redis.error_reply('ERR DPQ: drop the other queues of this family first')
end
local removed = redis.call('UNLINK', ready, delayed, invisible, waiting, groups, closed, payload, meta, dead, keys,
  conf, stats, wake, tick, workers, history, events, trail, batches, cancelled, results, progress, recent)
if shared == conf then -- no other queue has these limits
  removed = removed + redis.call('UNLINK', limits, gates, tracked)
end
return removed
