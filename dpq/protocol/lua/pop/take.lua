-- take: decide about the tasks that pop has removed from ready: lease them, put them back, or give them up.
-- It reads records by the same rule as `read` (record); but a table for each would cost too much.
-- Keys: ready groups payload meta
-- Needs: now
-- Gives: take(popped, taken, max_bytes, judge, crown), with the judge and the crown of limits, or nil; true if pop has
--        enough. It adds to `taken`: metas, the records to store; bodies, the payloads; bytes, their size; rotten, the
--        tasks for the dead letters; passed, how many tasks were put back. In `taken`, token is the last one given to a
--        delivery; priority and aging are the last ones that could be read.
local shape =
  '^%d+ (%d+) (%d+) (%d+) %S (%d+ %d+ (%d+) %d+ (%-?%d[%d.e+-]*) %d+ (%d+) (%S+) ()%d+()\t([^\t]*)\t[^\t]*\t[^\t]*\t.*)'

local function take(popped, taken, max_bytes, judge, crown)
  local metas, bodies, bytes, token = taken.metas, taken.bodies, taken.bytes, taken.token
  local priority_read, aging_read, enough = taken.priority, taken.aging, false
  local ids = {}
  for i = 1, #popped, 2 do
    local member = popped[i]
    ids[#ids + 1] = string.sub(member, string.byte(member) == 49 and 17 or 20)
  end
  local raws, loads = redis.call('HMGET', meta, unpack(ids)), redis.call('HMGET', payload, unpack(ids))
  for i, id in ipairs(ids) do
    local raw, body, member, score = raws[i], loads[i], popped[2 * i - 1], popped[2 * i]
    enough = enough or bytes + #(body or '') > max_bytes and #bodies > 0
    if enough then
      redis.call('ZADD', ready, score, member)
    elseif raw then
      local attempts, deliveries, deferrals, rest, cost, priority, expires, aging, order, edge, group =
        string.match(raw, shape)
      if priority ~= priority_read then
        local number = tonumber(priority or '')
        priority_read = number and number - number == 0 and priority or priority_read
      end
      if aging ~= aging_read then
        local rate = aging == '0' and 0 or tonumber(string.match(aging or '', '^(%d[%d.e+-]*)@%d+$') or '')
        aging_read = rate and rate <= 1000000 and aging or aging_read
      end
      local sound = priority == priority_read and aging == aging_read and edge <= 256 and #attempts <= 13
        and #deliveries <= 13 and #deferrals <= 13 and edge - order == (string.byte(raw, order) == 49 and 16 or 19)
      local may, reason = true, not body and 'payload missing'
        or expires ~= '0' and deliveries == '0' and tonumber(expires or 0) <= now and 'expired'
      if not sound or reason then
        taken.rotten[#taken.rotten + 1] = { id, sound and raw, reason }
        taken.passed = taken.passed + 1
        if crown and not sound then -- if it was the head, its group goes on
          group = string.match(raw, '\t([^\t]*)') or ''
          group = string.find(redis.call('HGET', groups, group) or '', ' ' .. member, 1, true) and group
        end
      else
        may = not judge or judge(tonumber(score), member, id, tonumber(cost), group)
        if may then
          local n = #metas
          metas[n + 1], metas[n + 2] = id, string.format('%.0f ', token + #bodies + 1)
            .. attempts .. (deliveries == '0' and ' 1 ' or ' ' .. deliveries + 1 .. ' ') .. deferrals .. ' - ' .. rest
          bodies[#bodies + 1] = body
          bytes = bytes + #body
        elseif may == nil then
          redis.call('ZADD', ready, score, member)
          enough = true
        else
          taken.passed = taken.passed + 1
        end
      end
      if may and crown and group and group ~= '' then
        crown(group)
      end
    end
  end
  taken.bytes, taken.priority, taken.aging = bytes, priority_read, aging_read
  return enough
end
