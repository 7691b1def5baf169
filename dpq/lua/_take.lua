-- _take: what becomes of the tasks that pop has taken out of ready.
-- Wants: popped, now, ready, payload, meta, most, max_bytes; judge and crown, or nil. Adds to metas, bodies,
--        bytes, rotten (what goes to the dead letters), and passed (how many of them did not come).
local ids = {}
for i = 1, #popped, 2 do
  local member = popped[i]
  ids[#ids + 1] = string.sub(member, string.byte(member) == 49 and 17 or 20)
end
local raws, loads, enough = redis.call('HMGET', meta, unpack(ids)), redis.call('HMGET', payload, unpack(ids)), false
for i, id in ipairs(ids) do
  local raw, body, member, score = raws[i], loads[i], popped[2 * i - 1], popped[2 * i]
  enough = enough or bytes + #(body or '') > max_bytes and #bodies > 0
  if enough then
    redis.call('ZADD', ready, score, member)
  elseif raw then
    local attempts, deliveries, deferrals, rest, cost, expires, group = string.match(raw,
      '^%d+ (%d+) (%d+) (%d+) %S (%d+ %d+ (%d+) %d+ %-?%d[%d.e+-]* %d+ (%d+) %S+ %d+\t([^\t]*)\t[^\t]*\t[^\t]*\t.*)$')
    local may, reason = true, not body and 'payload missing'
      or expires ~= '0' and deliveries == '0' and tonumber(expires or 0) <= now and 'expired'
    if not attempts or reason then
      rotten[#rotten + 1] = { id, attempts and raw, reason }
      passed = passed + 1
    else
      may = not judge or judge(tonumber(score), member, id, tonumber(cost), group)
      if may then
        local n = #metas
        metas[n + 1], metas[n + 2] = id, attempts .. ' ' .. deliveries + 1 .. ' ' .. deferrals .. ' - ' .. rest
        bodies[#bodies + 1] = body
        bytes = bytes + #body
      elseif may == nil then
        redis.call('ZADD', ready, score, member)
        enough = true
      else
        passed = passed + 1
      end
    end
    if may and crown and group and group ~= '' then
      crown(group)
    end
  end
end
if enough then
  break
end
