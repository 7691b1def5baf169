-- line: keep the line in which callers of acquire wait, best first. A caller stands in `tracked` as "scope VT place VT
-- end state channel". The place is the score of the caller as 18 hex digits, the microsecond of its arrival in 16
-- digits, and its id. `end` has 13 digits of ms: then the caller is forgotten, unless it has asked again. The state is
-- "w", or "c" after a call. The gate of the scope knows until when there may be callers (booked). docs/storage.md,
-- "Permits".
-- Needs: now, gate, groups, heads, opens, pool, record, order
-- Gives: place_in_line(score, us), a place without the id;
--        place_of_task(score, raw), the place of a task;
--        best_of(gate), the place of the best task of the scope, or nil;
--        free_in(gate), how many callers and tasks may begin now;
--        first_of(gate, most, place), the first callers before that place, or of all;
--        leave_line(gate, place), which removes a caller. It returns true if the caller stood there.
local function place_in_line(score, us)
  return string.sub(behind('', score, ''), 2) .. string.format('%016.0f', us)
end

local function place_of_task(score, raw)
  local task = read(raw or '')
  return place_in_line(score, task and task.enqueued * 1000 or 0)
end

local function best_of(gate)
  local score, member
  if gate.scope == '' then
    member, score = unpack(redis.call('ZRANGE', ready, '0', '0', 'WITHSCORES'))
  else
    score, member = head_of(gate.scope)
  end
  if not score and gate.scope ~= '' then
    score, member = heir_of(gate.scope)
  end
  local id = score and id_of(member)
  return id and place_of_task(tonumber(score), redis.call('HGET', meta, id))
end

-- Also removes callers that are over. If there are very many, it removes only some.
local function first_of(gate, most, place)
  local from, to = '[' .. gate.scope .. '\11', '(' .. gate.scope .. '\11' .. (place or '\127')
  local found, over, count = nil, nil, most + 8
  for _ = 1, 10 do
    found, over = {}, {}
    for _, entry in ipairs(redis.call('ZRANGEBYLEX', tracked, from, to, 'LIMIT', '0', count)) do
      local at, ends, state, channel = string.match(entry, '^([^\11]*)\11(%d+)([wc])(.*)$', #gate.scope + 2)
      if not ends or tonumber(ends) <= instant then
        over[#over + 1] = entry
      elseif #found < most then
        found[#found + 1] = { entry = entry, place = at, ends = tonumber(ends), called = state == 'c',
          channel = channel }
      end
    end
    if not over[1] then
      break
    end
    redis.call('ZREM', tracked, unpack(over))
    count = 200
  end
  return found
end

-- Without a concurrency, tasks and callers begin one after the other.
local function free_in(gate)
  local is_full, free = full(gate)
  if is_full or not gate.rules.members then
    return is_full and 0 or free or 1
  end
  pool_at(gate, {}, math.huge)
  local any, sum = 0, 0
  for _, mate in ipairs(gate.mates) do
    is_full, free = full(mate)
    any = is_full and any or 1
    sum = is_full and sum or sum + (free or opens_at(mate, {}, math.huge) <= instant and 1 or 0)
  end
  return math.max(any, sum)
end

local function leave_line(gate, place)
  local start = gate.scope .. '\11' .. place .. '\11'
  local entry = redis.call('ZRANGEBYLEX', tracked, '[' .. start, '(' .. start .. '\127', 'LIMIT', '0', '1')[1]
  return entry and redis.call('ZREM', tracked, entry) == 1
end
