-- claim: a push with a key meets the holder of the key, or claims it.
-- Keys: meta keys
-- Needs: layout
-- Gives: claim(claims, id, option), for the claims so far, by key: the id of the holder, nil when the key was free;
--        and when they may not meet, the status of push: -3 or -4.
local function claim(claims, id, option)
  local group, key = option.group, option.key
  local earlier = claims[key]
  local holder = earlier and earlier.id or redis.call('HGET', keys, key)
  local record = not earlier and holder and redis.call('HGET', meta, holder)
  if not earlier and not record then -- no task holds it, or its holder is not stored
    claims[key] = { id = id, group = group }
    return nil
  elseif option.on_duplicate == 'error' then
    return holder, -3
  elseif group ~= (earlier and earlier.group or string.match(record, GROUP)) then
    return holder, -4
  end
  return holder
end
