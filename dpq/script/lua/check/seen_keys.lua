-- seen_keys: find a seen key that would never be freed.
-- Needs: problem
-- Gives: look_at_seen(key, value), for a key whose task was acked (seen).
local function look_at_seen(key, value)
  local ends = string.match(value, '^[^\t]+\t(%d+)\t?[^\t]*$')
  if not ends or #ends > 16 then
    problem('bad seen key', key, value)
  elseif tonumber(redis.call('ZSCORE', recent, key) or '') ~= tonumber(ends) then
    problem('seen key would stay', key, ends)
  end
end
