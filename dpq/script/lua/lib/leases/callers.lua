-- callers: call the callers of acquire that may go now, and keep for them what is free.
-- Needs: now, rules, opens, cost, booked, line
-- Gives: call_line(gate, freed), which calls the callers that may go now, or take a booking that was freed;
--        kept_for(gate, score, raw), for a task: until when callers before it keep all that is free, ms, or nil;
--        kept_from_best(gate), the same for the best task of the gate.
local CALLED_MS, ALIVE_MS, MOST = 1000, 1000, 16

-- Calls a caller, which must come within a second. Else it is dead, and the next caller is called. If the user may
-- not publish, the caller asks by itself, later.
local function call_one(gate, each)
  if not each.called then
    each.ends = now + CALLED_MS
    redis.call('ZREM', tracked, each.entry)
    redis.call('ZADD', tracked, '0', gate.scope .. '\11' .. each.place .. '\11'
      .. string.format('%013.0f', each.ends) .. 'c' .. each.channel)
    gate.booked[2], gate.changed = math.max(gate.booked[2], each.ends), true
    if each.channel ~= '' then
      redis.pcall('PUBLISH', 'dpq:calls:' .. each.channel, string.sub(each.place, 35))
    end
  end
  return each.ends
end

local function kept_before(gate, place)
  local free, ends = free_in(gate), math.huge
  local first = free > 0 and first_of(gate, math.min(free, MOST), place) or {}
  for _, each in ipairs(#first >= free and first or {}) do
    ends = math.min(ends, call_one(gate, each))
  end
  return ends < math.huge and ends or nil
end

local function kept_for(gate, score, raw)
  return kept_before(gate, place_of_task(score, raw))
end

local function kept_from_best(gate)
  local best = best_of(gate)
  return best and kept_before(gate, best)
end

-- Calls the callers that may go now. The best task has its turn while consumers take tasks of the scope. If no
-- consumer does, the caller behind that task is called, too, and waits a moment for the task (booking).
local function call_line(gate, freed)
  local free, ahead = free_in(gate), gate.told and 0 or MOST_AHEAD_MS -- no booking beyond a reset
  local soon = freed or opens_at(gate, weigh('1'), math.huge) - instant <= ahead
  if gate.opens > instant or free == 0 or not soon then
    return
  end
  local first = first_of(gate, math.min(free, MOST))
  local best = first[1] and best_of(gate)
  for i, each in ipairs(first) do
    local behind_task = best and best <= string.sub(each.place, 1, 34) and i >= free
    if each.place ~= seen.asks and not (behind_task and gate.booked[4] > instant - ALIVE_MS) then
      call_one(gate, each)
    end
  end
end
