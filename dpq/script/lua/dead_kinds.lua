-- dead_kinds: count the newest dead letters by the reason and the last error, as shape writes them. It changes nothing.
--
-- Keys: meta dead
-- ARGV[1]  start      number: the first rank, from 0 for the newest
-- ARGV[2]  look       number: how many dead letters to look at, at most
--
-- Returns flat: how many were looked at, and how many are left behind them; then for each kind its reason, its error,
-- how many dead letters it has, the id of the newest, and when that died, ms.
-- Lost reply: safe to send again.

-- Needs: shape
local kinds, order, looked = {}, {}, 0
while looked < look do
  local from = start + looked
  local page = redis.call('ZRANGE', dead, from, math.min(from + 99, start + look - 1), 'REV')
  if #page == 0 then
    break
  end
  for i, raw in ipairs(redis.call('HMGET', meta, unpack(page))) do
    local reason, fault = said(raw or '')
    reason, fault = shape(reason), shape(fault)
    local kind = kinds[reason .. '\t' .. fault]
    if not kind then
      kind = { reason, fault, 0, page[i] }
      kinds[reason .. '\t' .. fault], order[#order + 1] = kind, kind
    end
    kind[3] = kind[3] + 1
  end
  looked = looked + #page
end
local reply = { looked, math.max(0, redis.call('ZCARD', dead) - start - looked) }
for _, kind in ipairs(order) do
  kind[5] = redis.call('ZSCORE', dead, kind[4])
  for _, value in ipairs(kind) do
    reply[#reply + 1] = value
  end
end
return reply
