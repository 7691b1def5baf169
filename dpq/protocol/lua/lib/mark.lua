-- mark: some group is closed, or has something in gates: conf says so in `gated`, where limits may be noted (noted).
-- Keys: conf
-- Gives: mark().
local function mark()
  if redis.call('HEXISTS', conf, 'gated') == 0 then
    redis.call('HSET', conf, 'gated', '1')
  end
end
