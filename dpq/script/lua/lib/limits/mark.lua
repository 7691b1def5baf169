-- mark: store in `gated` of conf that there is a limit, a gate or a closed group.
-- Gives: mark().
local function mark()
  if redis.call('HEXISTS', conf, 'gated') == 0 then
    redis.call('HSET', conf, 'gated', '1')
  end
end
