-- forget_results: remove kept results, and what tasks have told of their progress.
--
-- Keys: results progress
-- ARGV[1]  most       fields of each key at most
--
-- Returns how many fields it has removed; call again until it returns 0. Later results have larger numbers.
-- Lost reply: safe to send again; the second call removes the next ones.

local removed = 0
for _, key in ipairs({ results, progress }) do
  local drawn = redis.call('HRANDFIELD', key, most) or {}
  if drawn[1] then
    removed = removed + redis.call('HDEL', key, unpack(drawn))
  end
end
return removed
