-- result: read what has become of a task. It changes nothing.
--
-- Keys: results progress meta dead
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
--
-- Returns {'dead', record, time of death} if the task is a dead letter; {'done', number, time, end of its time, JSON}
-- for the newest result that is kept; {'live', its token, what its last progress says, or ""} while it is stored; else
-- {''}. Times are ms.
-- Lost reply: safe to send again.

-- Needs: now
local raw = redis.call('HGET', meta, id)
local died = raw and redis.call('ZSCORE', dead, id)
if died then
  return { 'dead', raw, died }
end
local number, expires = string.match(redis.call('HGET', results, '=' .. id) or '', '^(%d+) (%d+)$')
if number and tonumber(expires) > now then
  local head, body = unpack(redis.call('HMGET', results, number, number .. '.'))
  if head and body then
    return { 'done', number, string.match(head, '^%d+ (%d+)'), expires, body }
  end
end
if raw then
  return { 'live', string.match(raw, '^%d+') or '0', redis.call('HGET', progress, id) or '' }
end
return { '' }
