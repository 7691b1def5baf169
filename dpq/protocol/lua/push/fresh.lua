-- fresh: a push adds a task.
-- Needs: now, begin, body, score, layout, marks
-- Gives: add(id, spec, body, place, group, batch), for the group of a plain task: it adds to the batch what is to be
--        stored, metas and payloads; where the task is to stand: delays, plain (ready), or others (group, score, member
--        of ready, ...), where gather says; and heavy, when it costs more than 1. `place` is its place among equals. Of
--        the batch `aging` is that of its records, and `setting` the queue's `payloads`.
local function place_other(others, group, score, member)
  local n = #others
  others[n + 1], others[n + 2], others[n + 3] = group, score, member
end

local function add_full(id, spec, body, place, batch)
  local behind_it, aging, n = inline(body, batch.setting), batch.aging, #batch.payloads
  local max, cost, wait, priority, expires, residual, schedule, options, tail, group = string.match(spec,
    '^f(%d+) (%d%S*) (%d+) (%S+) (%d+) (%d+) %l([^\t\30\31]*)([^\t]*)\t(([^\t]*)\t.*)$')
  local order = residual .. string.format('%015d', place)
  if schedule ~= '' then
    schedule, wait, expires = begin(schedule, wait)
    wait = string.format('%.0f', wait)
  elseif expires ~= '0' then
    expires = string.format('%.0f', now + expires)
  end
  tail = '\t' .. tail .. '\t\t' .. options .. schedule
  local record = 'f' .. table.concat({ stamp, order, max, priority, cost, wait, expires, aging }, ' ')
  if behind_it == '' then
    batch.payloads[n + 1], batch.payloads[n + 2] = id, body
  end
  n = #batch.metas
  batch.metas[n + 1], batch.metas[n + 2] = id, record .. tail .. behind_it
  batch.heavy = batch.heavy or cost ~= '1' or options ~= '' and string.find(options, PIN, 1, true)
  if wait ~= '0' then
    n = #batch.delays
    batch.delays[n + 1], batch.delays[n + 2] = string.format('%.0f', now + wait), id
  elseif group == '' and aging == '0' then
    n = #batch.plain
    if string.byte(priority) == 45 then -- minus the priority, as text
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
    spec = 'f' .. table.concat({ max == '' and '10' or max, 1, 0, priority, 0, 1, 'k' }, ' ') .. '\t' .. group .. '\t'
    return add_full(id, spec, text, place, batch)
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
