-- _fresh: a push adds a task.
-- Wants: i, id, args, now, now_text, place, light, lifo, static, aging; begin (_begin). Moves place and light on; adds
--        to metas and payloads, and to delays, plain or others.
local head, cost, wait, priority, expires, residual, schedule, options, tail, group = string.match(args[3 * i],
  '^(%d+ (%d+) (%d+) (%S+)) (%d+) (%d+) %l([^\t\31]*)([^\t]*)\t(([^\t]*)\t.*)$')
place, light = place + 1, light and cost == '1'
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
metas[n + 2] = '0 0 0 0 - 0 ' .. head .. now_text .. expires .. ' ' .. aging .. ' ' .. order .. '\t' .. tail
  .. '\t\t' .. options .. schedule
payloads[n + 2] = args[3 * i + 1]
if wait ~= '0' then
  delays[#delays + 1] = string.format('%.0f', now + wait)
  delays[#delays + 1] = id
elseif group == '' and static then
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
