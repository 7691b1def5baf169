-- go_on: from here on the script runs at full memory too. At `maxmemory` a server refuses a script at its first write
-- if that write may take memory, and refuses none after a write that takes none. So this one comes first: it removes
-- nothing. For what holds, ends or guards work; not for what adds tasks. A script whose first write is a ZREM,
-- ZPOPMIN, HDEL or UNLINK needs none.
-- Keys: conf
-- Gives: go_on().
local function go_on()
  redis.pcall('HDEL', conf, '') -- an error says nothing: the next write meets it as well
end
