-- has_ended: find gates that hold only grants, none of which counts any more.
-- Needs: now
-- Gives: has_ended(text), true if a gate is one of these;
--        drop_ended(most), which looks at most at that many gates, and removes those (as prune).
local function has_ended(text)
  local until_ms = string.find(text, '^%- [%l%d:._ ]*$') and 0 or math.huge
  for per, upto in string.gmatch(text, ' (%d+)[a-z0-9_]*:([%d.]+)') do
    until_ms = math.max(until_ms, per == '0' and math.huge or (tonumber(per) or 0) + (tonumber(upto) or 0))
  end
  return until_ms <= instant
end

local function drop_ended(most)
  local drawn = redis.call('HRANDFIELD', gates, most, 'WITHVALUES') or {}
  for i = 1, #drawn, 2 do
    if has_ended(drawn[i + 1]) then
      redis.call('HDEL', gates, drawn[i])
    end
  end
end
