-- seen_keys: find a seen key that would never be freed.
-- Keys: keys recent
-- Needs: problem
-- Gives: look_at_seen(key, value, mends), for a key whose task was acked (seen). If `mends`, it mends what it finds.
local function look_at_seen(key, value, mends)
  local ends = string.match(value, '^[^\t]+\t(%d+)\t?[^\t]*$')
  if not ends or #ends > 16 then
    problem('bad seen key', key, value)
    if mends then
      redis.call('HDEL', keys, key)
    end
  elseif tonumber(redis.call('ZSCORE', recent, key) or '') ~= tonumber(ends) then
    problem('seen key would stay', key, ends)
    if mends then
      redis.call('ZADD', recent, ends, key)
    end
  end
end
