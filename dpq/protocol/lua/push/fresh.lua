-- fresh: a push adds a task.
-- Needs: now, begin
-- Gives: add(id, spec, body, place, aging, metas, payloads, delays, plain, others): whether it costs 1. It adds to
--        metas and payloads what is to be stored; and to delays, plain or others where the task is to stand: delayed,
--        ready, or where place says. `place` is its place among equals, `aging` that of its record.
local function add(id, spec, body, place, aging, metas, payloads, delays, plain, others)
  local head, cost, wait, priority, expires, residual, schedule, options, tail, group = string.match(spec,
    '^(%d+ (%d+) (%d+) (%S+)) (%d+) (%d+) %l([^\t\31]*)([^\t]*)\t(([^\t]*)\t.*)$')
  local order = residual .. string.format('%015d', place)
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
    delays[#delays + 1] = string.format('%.0f', now + wait)
    delays[#delays + 1] = id
  elseif group == '' and aging == '0' then
    n = #plain
    if string.byte(priority) == 45 then -- minus the priority, as text
      plain[n + 1] = string.sub(priority, 2)
    else
      plain[n + 1] = priority == '0' and priority or '-' .. priority
    end
    plain[n + 2] = order .. id
  else
    others[id] = { group = group, order = order, aging = aging, enqueued = now, wait = 0,
      priority = priority }
  end
  return cost == '1'
end
