-- forget: free seen keys, so that a push adds a task under them again.
--
-- Keys: keys recent
-- ARGV[1]  most       number: seen keys at most, if no key is named
-- ARGV[2]  key        the key to free; "" for any seen keys
--
-- Returns how many keys it has freed. A key that a stored task has is not freed. Without a key it returns how many
-- entries it has removed; call again until it returns 0.
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
return freed
