-- warned: find what goes wrong beside the state of a queue: in the 20 newest dead letters, and in the batches for which
-- the last 10 tasks of delayed wait.
-- Keys: delayed meta dead batches
-- Needs: now, batch_list
-- Gives: deaths(): id and reason of the newest dead letter that recurs, or two empty texts; how many dead letters of
--        the last day have a key, and such a key;
--        standstill(): a batch for whose end a task waits, and of which no task has ended for an hour, how many of its
--        tasks are left, and since when, ms; or three empty texts.
local DAY, HOUR = 86400000, 3600000

local function records_of(ids)
  return ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}
end

local function deaths()
  local ids, moments, newest, why, keyed, known = {}, {}, '', '', 0, ''
  for i, text in ipairs(redis.call('ZRANGE', dead, '0', '19', 'REV', 'WITHSCORES')) do
    table.insert(i % 2 == 1 and ids or moments, text)
  end
  for i, raw in ipairs(records_of(ids)) do
    local key, reason, schedule = string.match(raw or '',
      '^[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t([^\t\n]*)\t[^\t\n]*\t?([^\t\n]*)')
    if newest == '' and (schedule or '') ~= '' then
      newest, why = ids[i], reason
    end
    if tonumber(moments[i]) > now - DAY and (key or '') ~= '' then
      keyed, known = keyed + 1, key
    end
  end
  return newest, why, string.format('%.0f', keyed), known
end

local function standstill()
  local list = batch_list()
  for _, raw in ipairs(records_of(redis.call('ZRANGE', delayed, '-10', '-1'))) do
    local name = list.awaited(raw or '')
    local batch = name and list.parsed(redis.call('HGET', batches, name))
    if batch and tonumber(batch.left) > 0 and tonumber(batch.changed) < now - HOUR then
      return name, batch.left, batch.changed
    end
  end
  return '', '', ''
end
