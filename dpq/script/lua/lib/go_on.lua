-- go_on: let the script run at full memory, too. At `maxmemory` a server refuses a script at its first write, if that
-- write may take memory. If the first write takes none, the server refuses no write of the script. So this write comes
-- first: it removes nothing. It is for scripts that hold, end or guard work, not for those that add tasks. A script
-- whose first write is a ZREM, ZPOPMIN, HDEL or UNLINK does not need it.
-- Gives: go_on(), to be called before the first write.
local function go_on()
  redis.pcall('HDEL', conf, '') -- ignore an error: the next write meets it, too
end
