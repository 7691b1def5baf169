-- go_on: let the script run at full memory, too. At `maxmemory` a server refuses a script at its first write if that
-- write may take memory. After a write that takes none, it refuses no write. So this write comes first: it removes
-- nothing. For scripts that hold, end or guard work, not for those that add tasks. A script whose first write is a
-- ZREM, ZPOPMIN, HDEL or UNLINK does not need it.
-- Keys: conf
-- Gives: go_on().
local function go_on()
  redis.pcall('HDEL', conf, '') -- ignore an error: the next write meets it, too
end
