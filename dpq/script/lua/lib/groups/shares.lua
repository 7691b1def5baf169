-- shares: give heads their places if groups take turns by what they spend (start-time fair queueing). The place of a
-- head is what its group has spent so far, divided by its weight. docs/storage.md, "Shares". A task without a group has
-- its own sequence there, which no "9" begins: it stands before all groups of its priority.
-- Needs: order, rules
-- Gives: share_place(group, score, member, stays): the 15 digits that stand in the member of a head for its sequence.
--          `score` is its score as text. If `stays`, another task of the group was its head up to now. If that is true,
--          the group is still to be charged for that task, and moved by `charge_share`;
--        charge_share(group, amount, in_turn): adds to what the group has spent an amount, maybe below 0, and moves its
--          head there. `in_turn` is true if its last head was leased for that;
--        share_clock() and share_of(group), which read what is stored;
--        unit_of(fairness), the unit that counts for that setting, "" for requests; nil if none does; weight_of(group).

-- Reads how far the served heads have come, and the last place that a newcomer got.
local function share_clock()
  local reached, newest = string.match(redis.call('HGET', groups, '\t') or '', '^(%d[%d.e+-]*) (%d[%d.e+-]*)$')
  return tonumber(reached) or 0, tonumber(newest) or 0
end

-- Reads the place of a group, the most that it was charged at once, and the level (priority) of its last head.
local function share_of(group)
  local place, most, level = string.match(redis.call('HGET', groups, '\t' .. group) or '',
    '^(%d[%d.e+-]*) (%d[%d.e+-]*) (%S+)$')
  return tonumber(place), tonumber(most) or 0, level or '-'
end

local function store_share(group, place, most, level)
  redis.call('HSET', groups, '\t' .. group, string.format('%.17g %.17g %s', math.max(place, 0), most, level))
end

local function digits_of(place) -- thousandths, 12 digits of them; the exponent before them keeps the order
  local thousandths, exponent = math.max(place, 0) * 1000, 0
  while thousandths >= 999999999999 do
    thousandths, exponent = thousandths / 10, exponent + 1
  end
  return string.format('9%02d%012.0f', exponent, math.floor(thousandths + 0.5))
end

local function place_in(member)
  local exponent, thousandths = string.match(sequence_of(member), '^9(%d%d)(%d+)$')
  return exponent and thousandths * 10 ^ exponent / 1000
end

-- Returns the place of the first head of a priority, or nil. If tasks without a group stand before it, or those of a
-- priority that no double holds, it is searched by rank.
local function first_head_of(score, residual)
  local first = redis.call('ZRANGE', ready, score, score, 'BYSCORE', 'LIMIT', '0', '1')[1]
  local is_head = not first or string.sub(first, 1, #residual) == residual and place_in(first)
  local function at(rank) -- true if what stands there does not come before the first head
    local member, beside = unpack(redis.call('ZRANGE', ready, rank, rank, 'WITHSCORES'))
    first, beside = member, tonumber(beside)
    return not member or beside > tonumber(score)
      or beside == tonumber(score) and string.sub(member, 1, #residual + 1) >= residual .. '9', beside
  end
  if not is_head then
    local low, step = -1, 1 -- the place is behind `low`, and not behind `low + step`
    while not at(low + step) do
      low, step = low + step, 2 * step
    end
    while step > 1 do
      step = step / 2
      low = at(low + step) and low or low + step
    end
    local _, beside = at(low + 1)
    is_head = first and beside == tonumber(score) and string.sub(first, 1, #residual) == residual
  end
  return is_head and first and place_in(first)
end

local function share_place(group, score, member, stays)
  local at, most, last = share_of(group)
  local residual = string.sub(member, 1, residual_in(member))
  local level, before = residual .. score, at
  if at and stays == true then
    return digits_of(at)
  elseif not (at and last == level and stays) then
    local reached, newest = share_clock()
    local first = first_head_of(score, residual) or reached
    if at and last ~= level then -- what it spends at other priorities counts as one task here
      at = math.min(at, first + most)
    end
    if not at or at <= first then -- an idle group gains no credit; newcomers stand in the order of their coming
      at = newest >= first and newest < first + 1 and newest + 0.001 or first
      redis.call('HSET', groups, '\t', string.format('%.17g %.17g', reached, at))
    end
  end
  if at ~= before or last ~= level then
    store_share(group, at, most, level)
  end
  return digits_of(at)
end

local function charge_share(group, amount, in_turn)
  local at, most, level = share_of(group)
  local reached, newest = share_clock()
  at = at or reached
  if in_turn and at > reached then
    redis.call('HSET', groups, '\t', string.format('%.17g %.17g', at, newest))
  end
  store_share(group, at + amount, math.max(most, amount), level)
  local score, shown, member = string.match(redis.call('HGET', groups, group) or '', '^(%S+) (%S+) (%S+)$')
  if shown and place_in(shown) and redis.call('ZREM', ready, shown) == 1 then
    local digits = share_place(group, score, member, shown)
    local moved = string.sub(member, 1, residual_in(member)) .. digits .. id_of(member)
    redis.call('ZADD', ready, score, moved)
    redis.call('HSET', groups, group, score .. ' ' .. moved .. ' ' .. member)
  end
end

local function unit_of(fairness)
  return string.match(fairness or '', '^units:?([a-z0-9_]*)$')
end

local function weight_of(group)
  local rules = rules_of('group:' .. group) or rules_of('groups')
  return rules and rules.weight or 1
end
