-- mark: store in `gated` of conf that some group is closed, or has a gate. `gated` may hold the number of limits
-- instead (noted).
-- Keys: conf
-- Gives: mark(), which stores "1" unless the field is there.
local function mark()
  if redis.call('HEXISTS', conf, 'gated') == 0 then
    redis.call('HSET', conf, 'gated', '1')
  end
end
