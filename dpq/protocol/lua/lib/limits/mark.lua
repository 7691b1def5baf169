-- mark: store in conf's `gated` that some group is closed, or has a gate. The number of limits may stand there, too
-- (noted).
-- Keys: conf
-- Gives: mark().
local function mark()
  if redis.call('HEXISTS', conf, 'gated') == 0 then
    redis.call('HSET', conf, 'gated', '1')
  end
end
