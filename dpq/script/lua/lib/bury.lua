-- bury: move tasks to the dead letters, and tell of it, unless it is silent.
-- Needs: now, record, ended, event, trim, layout, batches, followed, notes
-- Gives: rescue(id, raw), which buries a task whose record cannot be read, and ends its lease;
--        bury(id, task, reason, silent), which makes a task a dead letter; if silent, without an event.
local CLASSES = { ['attempts spent'] = 'buried_attempts_spent', ['lease expired'] = 'buried_lease_expired',
  ['lapses spent'] = 'buried_lapses_spent', expired = 'buried_expired',
  ['payload missing'] = 'buried_payload_missing' } -- totals

local function die(id, task, reason, notes, silent)
  lay_down(id, task, reason)
  if CLASSES[reason] then
    redis.pcall('HINCRBY', stats, CLASSES[reason], 1)
  end
  if not silent then
    tell('dead', task.group, '', id, reason)
  end
  end_followed(id, notes, 'dead')
  local batch = string.match(notes, OF_BATCH)
  if batch then
    count_in_batch(batch, 'left', 'dead')
  end
end

local function bury(id, task, reason, silent)
  die(id, task, reason, task.options, silent)
  trim(2)
end

-- Buries a task whose record cannot be read. A new record replaces it, so that the payload is not lost.
local function rescue(id, raw)
  local task = read(string.format(SHORT_HEAD, 0) .. string.rep('0', 15) .. '1 0\t')
  task.delivery, task.enqueued, task.inline = 'b', stamp, string.match(raw or '', '\n.*$') or ''
  die(id, task, 'bad record', raw or '')
  local found = redis.call('ZSCAN', tracked, '0', 'MATCH', '*\t' .. id, 'COUNT', '10000')[2]
  for n = 1, #found, 2 do
    local group, member = string.match(found[n], '^([^\t]*)\t?(.-)\t?[^\t]*$')
    ended({ id, group, member ~= '' and member }, true)
  end
end
