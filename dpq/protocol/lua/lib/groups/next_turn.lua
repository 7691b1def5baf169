-- next_turn: draw the next turn of a head, with round robin.
-- Keys: conf
-- Gives: next_turn(timed), 15 digits. If `timed`, turns are compared with those of other partitions, as in draw.
local function next_turn(timed)
  if timed then
    local time, reached = redis.call('TIME'), tonumber(redis.call('HGET', conf, 'turns') or '') or 0
    reached = math.max(reached, time[1] * 100000 + math.floor(time[2] / 10))
    redis.call('HSET', conf, 'turns', string.format('%.0f', reached))
  end
  local reached = redis.pcall('HINCRBY', conf, 'turns', '1')
  if not tonumber(reached) then -- if it is no number, turns start again at the time, as in draw
    local time = redis.call('TIME')
    reached = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('HSET', conf, 'turns', string.format('%.0f', reached))
  end
  return string.format('%015.0f', reached)
end
