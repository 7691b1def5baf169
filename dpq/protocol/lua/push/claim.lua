-- claim: find the task that holds the key of a push, or let the push claim the key.
-- Keys: meta keys
-- Needs: layout
-- Gives: claim(claims, id, option): nil if the key was free; else the id of its holder, and, if the push may not meet
--        that holder, the status of push: -3 or -4. `claims` has the earlier claims of this push, by key.
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
