-- upgrade: one step on the way of a queue from format 3 to format 4: its number, then a page of its records. From the
-- number on programs that know only format 3 are refused (refusal). In a queue of format 4 it puts payloads apart whose
-- records were written before the queue was set so.
--
-- Keys: conf stats meta payload invisible
-- ARGV[1]  cursor     of HSCAN, "0" at first
-- ARGV[2]  count      records at most, about
--
-- Returns {cursor, left}: "0" at the end; how many records of this page stay as they are, since a consumer that may
-- know only format 3 has their tasks. {-8, ...} when the queue has a format that is neither (refusal).
-- Lost reply: safe to send again.
local cursor, count = ARGV[1], ARGV[2]

-- Needs: refusal, record, body
local stored, payloads = unpack(redis.call('HMGET', conf, 'format', 'payloads'))
local refused = refusal(stored, nil, '0')
if refused then
  return refused
end
if stored == '3' then
  redis.call('HSET', conf, 'format', '4')
  redis.pcall('HSET', stats, 'kept.format', '4')
end
local page = redis.call('HSCAN', meta, cursor, 'COUNT', count)
local left = 0
for i = 1, #page[2], 2 do
  local id, task = page[2][i], read(page[2][i + 1])
  if task and not task.inline then
    local held = redis.call('ZSCORE', invisible, id)
    local body = not held and redis.call('HGET', payload, id)
    left = left + (held and 1 or 0)
    if body then
      task.inline = inline(body, payloads)
      redis.call('HSET', meta, id, write(task))
      if task.inline ~= '' then
        redis.call('HDEL', payload, id)
      end
    end
  elseif task and task.inline ~= '' and (payloads or 'inline') ~= 'inline' then
    redis.call('HSET', payload, id, string.sub(task.inline, 2))
    task.inline = ''
    redis.call('HSET', meta, id, write(task))
  end
end
return { page[1], left }
