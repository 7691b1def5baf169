-- units: estimate what many tasks take, by what some of them take.
-- Keys: meta
-- Needs: member, record, cost
-- Gives: units_of(set, members, count, heavy): the units by name that `count` tasks take. The `members` are of some of
--        them, as they stand in the set; `heavy` is true if tasks need different amounts.
local MOST_READ = 200

local function units_of(set, members, count, heavy)
  local ids, sums, read_ones = {}, { [''] = count }, 0
  for i = 1, math.min(#members, MOST_READ) do
    ids[i] = split(set, members[i])
  end
  for _, raw in ipairs(heavy and ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
    local task = raw and read(raw)
    if task then
      if read_ones == 0 then
        sums = {}
      end
      read_ones = read_ones + 1
      for unit, units in pairs(weigh(task.cost)) do
        sums[unit] = (sums[unit] or 0) + units
      end
    end
  end
  for unit, sum in pairs(read_ones > 0 and sums or {}) do
    sums[unit] = sum * count / read_ones
  end
  return sums
end
