-- uncounted_waiting: find the costs of waiting tasks that a limit does not count as they are.
-- Keys: ready waiting meta
-- Needs: record, groups, cost, uncounted, order
-- Gives: uncounted_waiting(group, of_queue, of_group), the texts (uncounted) of the first tasks that wait in a group,
--        or in the queue (""). `of_queue` and `of_group` are the rules of the queue and of the group, or nil.
local function uncounted_waiting(group, of_queue, of_group)
  local most, members, ids, texts = 10, {}, {}, {}
  if group == '' then
    members = redis.call('ZRANGE', ready, '0', most - 1)
  else
    local _, head = head_of(group)
    members[1] = head
    for _, entry in ipairs(redis.call('ZRANGEBYLEX', waiting, '[' .. group .. '\t', '(' .. group .. '\n', 'LIMIT', '0',
      most)) do
      members[#members + 1] = string.sub(entry, #group + 20)
    end
  end
  for i, member in ipairs(members) do
    ids[i] = id_of(member)
  end
  for _, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
    local task = read(raw or '')
    for _, text in ipairs(task and uncounted(group, weigh(task.cost), of_queue, of_group) or {}) do
      texts[#texts + 1] = text
    end
  end
  return texts
end
