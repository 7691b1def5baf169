-- room: find how many tasks a queue has room for. `max_tasks` of conf bounds its live tasks. `max_waiting` bounds the
-- tasks of each group that are due and that no consumer has: its head, and those behind it. 0 is no bound.
-- Gives: bounds(), both bounds (math.huge for none), and `when_full`;
--        size_of(group), the tasks that the bound counts; "" for the queue;
--        room_in(group), for how many tasks there is room; below 0 after tasks have come back. A group that drops its
--        worst task has always room.
local function bounds()
  local texts = redis.call('HMGET', conf, 'max_tasks', 'max_waiting', 'when_full')
  local most, most_waiting = tonumber(texts[1] or '') or 0, tonumber(texts[2] or '') or 0
  return most > 0 and most or math.huge, most_waiting > 0 and most_waiting or math.huge, texts[3]
end

local function size_of(group)
  if group == '' then
    return redis.call('HLEN', meta) - redis.call('ZCARD', dead)
  end
  local behind = redis.call('ZLEXCOUNT', waiting, '[' .. group .. '\t', '(' .. group .. '\n')
  return behind + redis.call('HEXISTS', groups, group)
end

local function room_in(group)
  local most, most_waiting, how = bounds()
  if group ~= '' and how == 'drop_worst' then
    return math.huge
  end
  return (group == '' and most or most_waiting) - size_of(group)
end
