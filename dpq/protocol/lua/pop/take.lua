-- take: decide about the tasks that pop has removed from ready: lease them, put them back, or give them up.
-- It reads records by the same rule as `read` (record); but a table for each would cost too much.
-- Keys: ready groups payload meta
-- Needs: now, cost
-- Gives: take(popped, taken, max_bytes, judge, crown), with the judge and the crown of limits, or nil; true if pop has
--        enough. It adds to `taken`: metas, the records to store; long, the payloads that have a field of their own, by
--        id; bytes, the size of all payloads; rotten, the tasks for the dead letters; passed, how many tasks did not
--        come. In `taken`, token is the newest so far; priority and aging are the last ones that could be read; changes
--        has what a judge returned instead of true, a table of changes to the record (change).
local FRESH = '^p%d+ 1%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d %d+ %-?%d+\t([^\t\n]*)\n()' -- plain, and never delivered
local COUNTS = '^%d+ (%d+) (%d+) (%d+) %S (%d+) ()'
local PLAIN = '^%d+ ()%d+() %d+ (%-?%d+)()\t([^\t\n]*)()'
local FULL = '^%d+ ()%d+() %d+ (%-?%d[%d.e+-]*) (%d%S*) %d+ (%d+) (%S+)()'
  .. '\t([^\t\n]*)\t[^\t\n]*\t[^\t\n]*\t[^\n]*()'
local OLD = '^%d+ (%d%S*) %d+ (%-?%d[%d.e+-]*) %d+ (%d+) (%S+) ()%d+()'
  .. '\t([^\t\n]*)\t[^\t\n]*\t[^\t\n]*\t[^\n]*()$'

-- Takes apart a record of any other form: nil if it is no record; else its counts after this delivery; where the rest
-- of it begins; where its payload does; its cost, until when it must have begun, its group.
local function apart(raw, taken)
  local at, kind, attempts, deliveries, deferrals, again = 1, string.byte(raw), '0', '0', '0', '0'
  if kind and kind <= 57 then
    attempts, deliveries, deferrals, again, at = string.match(raw, COUNTS)
    kind = at and string.byte(raw, at)
  end
  local order, order_end, priority, edge, group, rest
  local cost, expires, aging = '1', '0', '0'
  if kind == 112 then
    order, order_end, priority, edge, group, rest = string.match(raw, PLAIN, at + 1)
  elseif kind == 102 then
    order, order_end, priority, cost, expires, aging, edge, group, rest = string.match(raw, FULL, at + 1)
  elseif kind then
    cost, priority, expires, aging, order, order_end, group, rest = string.match(raw, OLD, at)
    edge = order_end
  end
  if priority ~= taken.priority then
    local number = tonumber(priority or '')
    taken.priority = number and number - number == 0 and priority or taken.priority
  end
  if aging ~= taken.aging then
    local rate = aging == '0' and 0 or tonumber(string.match(aging or '', '^(%d[%d.e+-]*)@%d+$') or '')
    taken.aging = rate and rate <= 1000000 and aging or taken.aging
  end
  local sound = priority == taken.priority and aging == taken.aging and edge and edge <= 400 and #attempts <= 13
    and #deliveries <= 13 and #deferrals <= 13 and order_end - order == (string.byte(raw, order) == 49 and 16 or 19)
    and (rest > #raw or string.byte(raw, rest) == 10) and is_cost(cost)
  if sound then
    local counted = attempts .. (deliveries == '0' and ' 1 ' or ' ' .. deliveries + 1 .. ' ') .. deferrals
    return counted .. ' - ' .. again .. ' ', at, rest, cost, deliveries == '0' and expires or '0', group
  end
end

local function take(popped, taken, max_bytes, judge, crown)
  local metas, rotten = taken.metas, taken.rotten
  local ids, enough = {}, false
  for i = 1, #popped, 2 do
    local member = popped[i]
    ids[#ids + 1] = string.sub(member, string.byte(member) == 49 and 17 or 20)
  end
  local raws = redis.call('HMGET', meta, unpack(ids))
  for i, id in ipairs(ids) do
    local raw, member, score = raws[i], popped[2 * i - 1], popped[2 * i]
    if raw and not enough then
      local group, rest = string.match(raw, FRESH)
      local counted, at, cost, expires, body, reason, may = '0 1 0 - 0 ', 1, '1', '0', nil, nil, true
      if not rest or rest - #group > 402 then
        counted, at, rest, cost, expires, group = apart(raw, taken)
        if counted and rest > #raw then
          body = redis.call('HGET', payload, id)
          reason = not body and 'payload missing'
        end
        rest = counted and rest + 1 -- where its payload begins
        reason = reason or expires and expires ~= '0' and tonumber(expires) <= now and 'expired'
      end
      local size = body and #body or counted and #raw - rest + 1 or 0
      if taken.bytes + size > max_bytes and #metas > 0 then
        may = nil
      elseif not counted or reason then
        rotten[#rotten + 1] = { id, raw, reason }
        taken.passed = taken.passed + 1
        if crown and not counted then -- its group goes on, if it was this one
          group = string.match(raw, '^[^\t\n]*\t([^\t\n]*)') or ''
          group = string.find(redis.call('HGET', groups, group) or '', ' ' .. member, 1, true) and group
        end
      else
        may = not judge or judge(tonumber(score), member, id, cost, group, taken.token + 1)
        if may then
          local n = #metas
          taken.token = taken.token + 1
          metas[n + 1] = id
          metas[n + 2] = string.format('%d ', taken.token) .. counted .. (at == 1 and raw or string.sub(raw, at))
          if may ~= true then
            taken.changes = taken.changes or {}
            taken.changes[#taken.changes + 1] = { n + 2, string.format('%d', taken.token), may }
          end
          taken.long[id] = body
          taken.bytes = taken.bytes + size
        elseif may == false then
          taken.passed = taken.passed + 1
        end
      end
      if may and crown and group and group ~= '' then
        crown(group)
      end
      enough = may == nil
    end
    if raw and enough then
      redis.call('ZADD', ready, score, member)
    end
  end
  return enough
end
