-- fresh: add a pushed task to a batch.
-- Needs: now, begin, body, order, layout, notice
-- Gives: aging_of(rate, since), the text for records by two settings of the queue;
--        add(id, spec, body, place, group, batch). For a plain task `spec` is its score, for any other its options, and
--        `group` is nil. `place` is the task's place among equals. The fields of the batch: metas and payloads, the
--        entries to store; delays and plain, the entries of delayed and ready; others (group, score, member of ready,
--        ...), which gather stores; heavy, true if a task has another cost than 1, or a member; aging, the text for its
--        records; setting, the queue's `payloads`;
--        store(batch), which stores metas, payloads, plain and heavy.
local function aging_of(rate, since)
  local number = tonumber(rate or 0) or 0
  if number > 0 and number <= 1000000 and #rate <= 24 and string.find(rate, '^%d[%d.e+-]*$') then
    return rate .. '@' .. (string.match(string.sub(since or '', 1, 15), '^%d+$') or '0')
  end
  return '0'
end

local function place_other(others, group, score, member)
  local n = #others
  others[n + 1], others[n + 2], others[n + 3] = group, score, member
end

local function add_full(id, option, body, place, batch)
  local behind_it, aging, n = inline(body, batch.setting), batch.aging, #batch.payloads
  local cost, wait, priority, group = option.cost, option.delay, option.priority, option.group
  local order, schedule, expires = option.residual .. string.format('%015d', place), '', nil
  if option.every or option.cron then
    schedule, wait, expires = begin(option)
  else
    expires = expires_at(option)
  end
  local record = 'f' .. table.concat({ stamp, order, option.max_attempts, priority, cost, wait, expires, aging }, ' ')
  local tail = '\t' .. group .. '\t' .. option.key .. '\t\t' .. option.notes .. schedule
  if behind_it == '' then
    batch.payloads[n + 1], batch.payloads[n + 2] = id, body
  end
  n = #batch.metas
  batch.metas[n + 1], batch.metas[n + 2] = id, record .. tail .. behind_it
  batch.heavy = batch.heavy or cost ~= '1' or option.member
  if option.seals or option.waits then
    n = #batch.delays
    batch.delays[n + 1], batch.delays[n + 2] = UNTIL_OPENED, id -- see batches and followed
  elseif wait ~= 0 then
    n = #batch.delays
    batch.delays[n + 1], batch.delays[n + 2] = string.format('%.0f', now + wait), id
  elseif group == '' and aging == '0' then
    n = #batch.plain
    if string.byte(priority) == 45 then -- the score is minus the priority, as text
      batch.plain[n + 1] = string.sub(priority, 2)
    else
      batch.plain[n + 1] = priority == '0' and priority or '-' .. priority
    end
    batch.plain[n + 2] = order .. id
  else
    local score = score_of({ aging = aging, enqueued = now, wait = 0, priority = priority })
    place_other(batch.others, group, score, order .. id)
  end
end

local function add(id, spec, body, place, group, batch)
  if not group then
    return add_full(id, spec, body, place, batch)
  elseif (batch.setting or 'inline') ~= 'inline' or batch.aging ~= '0' or now >= 2 ^ 44 then
    local max, priority, text = string.match(body, '^(%d*) (%S+)\t[^\n]*\n(.*)$')
    local option = { residual = '1', max_attempts = max == '' and 10 or max, cost = '1', delay = 0, expires_in = 0,
      priority = priority, group = group, key = '', notes = '' }
    return add_full(id, option, text, place, batch)
  end
  local order, n = string.format('%d', 1000000000000000 + place), #batch.metas
  batch.moment = batch.moment or string.format(SHORT_HEAD, now)
  batch.metas[n + 1], batch.metas[n + 2] = id, batch.moment .. string.sub(order, 2) .. body
  if group == '' then
    n = #batch.plain
    batch.plain[n + 1], batch.plain[n + 2] = spec, order .. id
  else
    place_other(batch.others, group, tonumber(spec), order .. id)
  end
end

local function store(batch)
  redis.call('HSET', meta, unpack(batch.metas))
  if #batch.payloads > 0 then
    redis.call('HSET', payload, unpack(batch.payloads))
  end
  if #batch.plain > 0 then
    redis.call('ZADD', ready, unpack(batch.plain))
  end
  if batch.heavy then
    redis.call('HSET', conf, 'heavy', '1')
  end
end
