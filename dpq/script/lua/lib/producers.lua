-- producers: call the producers that wait for room (await_room). They stand in `tracked`, in a line for the queue and
-- one for each group: "SO group SO place SO end channel", where SO is the shift-out character (14). The place is 13
-- digits of ms, since when the producer waits, and its id. A producer whose end is over is dead.
-- Needs: now, room
-- Gives: call_all(vacated), for a table whose keys are groups that may have room now: it calls call_producers for each;
--        call_producers(group), which calls as many producers of a line as there is room for, at most 16, the first
--        ones first; "" for the line of the queue. A called producer leaves the line, and pushes. If no client hears a
--        call, another producer is called. A producer without a channel asks again by itself.
local function call_producers(group)
  local line = '\14' .. group .. '\14'
  local first = redis.call('ZRANGEBYLEX', tracked, '[' .. line, '(\14' .. group .. '\15', 'LIMIT', '0', '16')
  local free = first[1] and room_in(group) or 0
  for _, entry in ipairs(first) do
    local id, ends, channel = string.match(entry, '^%d+\11([^\14]*)\14(%d+) (.*)$', #line + 1)
    local over = not id or tonumber(ends) <= now
    if over or free > 0 then
      redis.call('ZREM', tracked, entry)
    end
    if not over and free > 0 and channel ~= '' then
      local heard = redis.pcall('PUBLISH', 'dpq:calls:' .. channel, id)
      free = free - (heard == 0 and 0 or 1)
    end
  end
end

local function call_all(vacated)
  for group in pairs(vacated) do
    call_producers(group)
  end
end
