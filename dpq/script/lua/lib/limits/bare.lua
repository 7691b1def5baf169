-- bare: find out by one call which of many groups have no limit of their own.
-- Needs: rules
-- Gives: bare(groups), which notes these groups in `seen` (rules).
local function bare(groups)
  local fields = {}
  for i, group in ipairs(groups) do
    fields[i] = 'group:' .. group
  end
  for i, text in ipairs(fields[1] and redis.call('HMGET', limits, unpack(fields)) or {}) do
    if not text then
      seen.rules[fields[i]] = false
    end
  end
end
