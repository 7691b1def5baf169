-- forget: free seen keys, so that a push adds a task under them again; or also remove results and progress.
--
-- Keys: keys recent results progress
-- ARGV[1]  most       number: entries of each kind at most, if no key is named
-- ARGV[2]  key        the key to free; "" for all seen keys, kept results and progress
--
-- Returns how many entries it has removed; call again until it returns 0. A key that a stored task has is not freed.
-- Lost reply: safe to send again; the second call finds the key free, and answers 0.

local freed = 0
for _, each in ipairs(key ~= '' and { key } or redis.call('ZRANGE', recent, '0', most - 1)) do
  local seen = string.find(redis.call('HGET', keys, each) or '', '\t', 1, true)
  if seen then
    redis.call('HDEL', keys, each)
  end
  if seen or key == '' then
    freed = freed + 1
    redis.call('ZREM', recent, each)
  end
end
for _, hash in ipairs(key == '' and { results, progress } or {}) do
  local drawn = redis.call('HRANDFIELD', hash, most) or {}
  freed = freed + (drawn[1] and redis.call('HDEL', hash, unpack(drawn)) or 0)
end
return freed
