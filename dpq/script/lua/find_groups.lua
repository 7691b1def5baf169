-- find_groups: list groups, and how many of their tasks stand in waiting. It changes nothing.
--
-- Keys: waiting closed
-- ARGV[1]  way        "largest": every group with more than a 200th of all waiting tasks, and some others; "name":
--                     groups by name; "closed": the closed groups, in the order in which they open
-- ARGV[2]  from       for "name" the text with which the names begin; for "closed" the first rank; -1 is the last one
-- ARGV[3]  behind     for "name" the group behind which to begin, or ""
-- ARGV[4]  most       number: groups at most
--
-- Returns flat: a group, and how many of its tasks stand in waiting.
-- Lost reply: safe to send again.

local reply = {}
local function end_of(group)
  return redis.call('ZLEXCOUNT', waiting, '-', '(' .. group .. '\n')
end
local function add(group, count)
  reply[#reply + 1], reply[#reply + 2] = group, string.format('%.0f', count)
end
local function group_at(rank)
  return string.match(redis.call('ZRANGE', waiting, rank, rank)[1] or '', '^([^\t]*)\t')
end
if way == 'closed' then
  for _, group in ipairs(redis.call('ZRANGE', closed, from, from + most - 1)) do
    add(group, redis.call('ZLEXCOUNT', waiting, '[' .. group .. '\t', '(' .. group .. '\n'))
  end
elseif way == 'name' then
  local rank = redis.call('ZLEXCOUNT', waiting, '-', '(' .. from)
  rank = behind ~= '' and math.max(rank, end_of(behind)) or rank
  local group = group_at(rank)
  while group and #reply < 2 * most and string.sub(group, 1, #from) == from do
    local next_rank = end_of(group)
    add(group, next_rank - rank)
    rank, group = next_rank, group_at(next_rank)
  end
else -- reads evenly spaced ranks: no larger group stands between two of these ranks
  local total, rank = redis.call('ZCARD', waiting), 0
  local step = math.max(1, math.ceil(total / 200))
  while rank < total do
    local group = group_at(rank)
    if not group then
      break
    end
    local count = redis.call('ZLEXCOUNT', waiting, '[' .. group .. '\t', '(' .. group .. '\n')
    add(group, count)
    local last = count > step and end_of(group) or 0
    rank = math.max(rank + step, math.floor((last + step - 1) / step) * step)
  end
end
return reply
