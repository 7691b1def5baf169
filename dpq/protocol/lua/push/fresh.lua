-- fresh: a push adds a task.
-- Needs: now, begin
-- Gives: add(batch, id, spec, body, lifo, aging), of a queue with those settings. It adds to the batch: metas and
--        payloads, what is to be stored; delays, plain or others, where the task is to stand: delayed, ready, or
--        where place says. It moves on place, the last one given, and light, whether all tasks cost 1.
local function add(batch, id, spec, body, lifo, aging)
  local head, cost, wait, priority, expires, residual, schedule, options, tail, group = string.match(spec,
    '^(%d+ (%d+) (%d+) (%S+)) (%d+) (%d+) %l([^\t\31]*)([^\t]*)\t(([^\t]*)\t.*)$')
  local metas, payloads, place = batch.metas, batch.payloads, batch.place + 1
  batch.place, batch.light = place, batch.light and cost == '1'
  local order = residual .. string.format('%015d', lifo and 999999999999999 - place or place)
  if schedule ~= '' then
    schedule, wait, expires = begin(schedule, wait)
    wait = string.format('%.0f', wait)
    head = string.gsub(head, '^(%d+ %d+) %d+', '%1 ' .. wait)
  elseif expires ~= '0' then
    expires = string.format('%.0f', now + expires)
  end
  local n = #metas
  metas[n + 1], payloads[n + 1] = id, id
  metas[n + 2] = '0 0 0 0 - 0 ' .. head .. ' ' .. stamp .. ' ' .. expires .. ' ' .. aging .. ' ' .. order
    .. '\t' .. tail .. '\t\t' .. options .. schedule
  payloads[n + 2] = body
  if wait ~= '0' then
    local delays = batch.delays
    delays[#delays + 1] = string.format('%.0f', now + wait)
    delays[#delays + 1] = id
  elseif group == '' and aging == '0' then
    local plain = batch.plain
    n = #plain
    if string.byte(priority) == 45 then -- minus the priority, as text
      plain[n + 1] = string.sub(priority, 2)
    else
      plain[n + 1] = priority == '0' and priority or '-' .. priority
    end
    plain[n + 2] = order .. id
  else
    batch.others[id] = { group = group, order = order, aging = aging, enqueued = now, wait = 0,
      priority = priority }
  end
end
