-- _claim: a push with a key meets the holder of the key, or claims it.
-- Wants: i, spec, ids, claims, holders, fresh, met, keys, meta. Sets holders[i], fresh and met, or claims
-- the key. Returns from the script: a refusal.
local mode, group, key = string.match(spec, '^%S+ %S+ %S+ %S+ %d+ %d+ (%l)[^\t]*\t([^\t]*)\t(.*)$')
local claim = claims[key]
local holder = claim and claim.id or redis.call('HGET', keys, key)
local record = not claim and holder and redis.call('HGET', meta, holder)
if not claim and not record then -- nobody holds it, or nobody who is stored
  claims[key] = { id = ids[i], group = group }
elseif mode == 'e' then
  return { -3, i, holder }
elseif group ~= (claim and claim.group or string.match(record, '\t([^\t]*)')) then
  return { -4, i, holder }
else
  holders[i], fresh, met = holder, fresh - 1, true
end
