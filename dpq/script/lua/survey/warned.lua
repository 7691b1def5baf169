-- warned: find what goes wrong beside the state of a queue: in the 20 newest dead letters, and in the batches for which
-- the last 10 tasks of delayed wait.
-- Keys: delayed meta dead batches
-- Needs: now, marks, batch_list, until_opened
-- Gives: died(): id and reason of the newest dead letter that recurs, or two empty texts; how many dead letters of the
--        last day have a key, and such a key;
--        standing(): a batch with an end that a task waits for, of which no task has ended for an hour, how many of its
--        tasks are left, and since when, ms; or three empty texts.
local DAY, HOUR = 86400000, 3600000

local function records(ids)
  return ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}
end

local function died()
  local ids, newest, why, keyed, known = redis.call('ZREVRANGE', dead, '0', '19'), '', '', 0, ''
  local today = redis.call('ZCOUNT', dead, now - DAY, '+inf')
  for i, raw in ipairs(records(ids)) do
    local key, reason, schedule = string.match(raw or '',
      '^[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t([^\t\n]*)\t[^\t\n]*\t?([^\t\n]*)')
    if newest == '' and (schedule or '') ~= '' then
      newest, why = ids[i], reason
    end
    if i <= today and (key or '') ~= '' then
      keyed, known = keyed + 1, key
    end
  end
  return newest, why, string.format('%.0f', keyed), known
end

local function standing()
  for _, raw in ipairs(records(redis.call('ZRANGEBYSCORE', delayed, UNTIL_OPENED, '+inf', 'LIMIT', '0', '10'))) do
    local list = batch_list()
    local name = list.awaited(raw or '')
    local batch = name and list.parsed(redis.call('HGET', batches, name))
    if batch and tonumber(batch.left) > 0 and tonumber(batch.changed) < now - HOUR then
      return name, batch.left, batch.changed
    end
  end
  return '', '', ''
end
