-- warned: find what goes wrong beside the state of a queue: in the 20 newest dead letters, in the batches for which the
-- last 10 tasks of delayed wait, and in the last 10 batches that had no live task.
-- Needs: now, batch_list, notes
-- Gives: deaths(): reason and last error of the newest dead letter; id and reason of the newest one that recurs; how
--        many of the last day keep a key that would be free by now after an ack, such a key and the id of its task;
--        texts are empty if there is none;
--        standstill(): a batch for whose end a task waits, and of which no task has ended for an hour, or one that
--        has no live task since between an hour and a day, and is not sealed; how many of its tasks are left, and
--        since when, ms; or three empty texts.
local DAY, HOUR = 86400000, 3600000

local function records_of(ids)
  return ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}
end

local function deaths()
  local ids, moments, first, fault, recurs, why, keyed, known, holder = {}, {}, '', '', '', '', 0, '', ''
  for i, text in ipairs(redis.call('ZRANGE', dead, '0', '19', 'REV', 'WITHSCORES')) do
    table.insert(i % 2 == 1 and ids or moments, text)
  end
  for i, raw in ipairs(records_of(ids)) do
    local key, reason, rest, schedule = string.match(raw or '',
      '^[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t([^\t\n]*)\t([^\t\n]*)\t?([^\t\n]*)')
    if i == 1 and reason then
      first, fault = reason, string.match(rest, '^[^\23-\31]*')
    end
    if recurs == '' and (schedule or '') ~= '' then
      recurs, why = ids[i], reason
    end
    local died, unique_for = tonumber(moments[i]), tonumber(string.match(rest or '', '\26(%d+)') or '0')
    if (key or '') ~= '' and died > now - DAY and died + unique_for <= now then
      keyed, known, holder = keyed + 1, key, ids[i]
    end
  end
  return first, fault, recurs, why, string.format('%.0f', keyed), known, holder
end

local function standstill()
  for _, raw in ipairs(records_of(redis.call('ZRANGE', delayed, '-10', '-1'))) do
    local name = string.match(raw or '', FOR_BATCH)
    local batch = name and read_batch(redis.call('HGET', batches, name))
    if batch and tonumber(batch.left) > 0 and tonumber(batch.changed) < now - HOUR then
      return name, batch.left, batch.changed
    end
  end
  local first, last = string.match(redis.call('HGET', batches, '\t') or '', '^(%d+) (%d+)$')
  for n = tonumber(last or 0), math.max(tonumber(first or 1), tonumber(last or 0) - 9), -1 do
    local name = string.match(redis.call('HGET', batches, string.format('\t%.0f', n)) or '', '^%d+ (.*)$')
    local batch = name and read_batch(redis.call('HGET', batches, name))
    local ago = batch and now - tonumber(batch.changed)
    if batch and batch.state == 'o' and batch.left == '0' and ago > HOUR and ago < DAY then
      return name, batch.left, batch.changed
    end
  end
  return '', '', ''
end
