-- next_turn: draw the next turn of a head, with round robin.
-- Keys: conf
-- Gives: next_turn(), 15 digits.
local function next_turn()
  local reached = redis.pcall('HINCRBY', conf, 'turns', '1')
  if not tonumber(reached) then -- if it is no number, turns start again at the time, as in draw
    local time = redis.call('TIME')
    reached = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('HSET', conf, 'turns', string.format('%.0f', reached))
  end
  return string.format('%015.0f', reached)
end
