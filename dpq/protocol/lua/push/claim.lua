-- claim: find the tasks that hold the keys of pushes, or let the pushes claim the keys.
-- Keys: meta keys
-- Needs: layout
-- Gives: claim_all(claims, holders, ids, known, options), for the variables of push with these names. It fills
--        `claims`, by key, and `holders`, by the number of the task; it returns how many keys have a holder. If a push
--        may not meet the holder of its key, the reply of push comes behind that number.
-- Returns nil if the key was free; else the id of its holder, and, if the push may not meet it, the status of push.
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

local function claim_all(claims, holders, ids, known, options)
  local met = 0
  for i, id in ipairs(ids) do
    if not known[i] and options[i] and options[i].key ~= '' then
      local holder, status = claim(claims, id, options[i])
      if status then
        return met, { status, i, holder }
      elseif holder then
        holders[i], met = holder, met + 1
      end
    end
  end
  return met
end
