-- quiet: tell workers to take no new tasks of the queue, or to take tasks again. They hear it by their next heartbeat.
--
-- Keys: conf workers events changes
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  quiet      "1" to be quiet, "" to go on
-- ARGV[3]  by         the person or program that does so, a single line; "" if it is not known
-- ARGV[4..]            ids of workers
--
-- Returns how many of these workers are there. If that changes something, one event says so.
-- Lost reply: safe to send again; the second call changes nothing, and adds no event.

-- Needs: now, go_on, event
go_on()
local there, changed, name = 0, 0, ''
for i = 4, #args do
  local stored, field = redis.call('HGET', workers, args[i]), args[i] .. '\tquiet'
  if stored then
    local seen = string.match(stored, '^%d+') or '0'
    there, name = there + 1, string.match(stored, '^[^\t]*\t[^\t]*\t(.*)$') or args[i]
    if quiet == '1' then
      changed = changed + redis.call('HSETNX', workers, field, string.format('%s\t%s\t%s', seen, stamp, by))
    else
      changed = changed + redis.call('HDEL', workers, field)
    end
  end
end
if changed > 0 then
  local who = changed > 1 and string.format('%.0f workers, the last is %s', changed, name) or 'worker ' .. name
  tell_change(quiet == '1' and 'quieted' or 'unquieted', '', who .. (by ~= '' and ', by ' .. by or ''))
end
return there
