-- claim: find the tasks that hold the keys of a push, or let the push claim these keys.
-- Needs: now, layout
-- Gives: claim_keys(ids, options, known, refused), for the variables of push with these names: the holders by the
--        number of the task; the claims {id, group} by key; how many tasks met a holder; and the reply of push:
--        `refused`, or another one if a task may not meet its holder.
local function claim(claims, id, option)
  local group, key = option.group, option.key
  local earlier = claims[key]
  local holder = earlier and earlier.id or redis.call('HGET', keys, key)
  local record = not earlier and holder and redis.call('HGET', meta, holder)
  if not earlier and not record then -- no task holds it, or its holder is not stored
    local seen, ends = string.match(holder or '', '^([^\t]*)\t(%d+)') -- by a task that was acked (seen)
    local how = option.on_duplicate
    if seen and tonumber(ends) > now and how ~= 'update' and how ~= 'rerun' then
      option.on_duplicate = 'keep' -- the task that had the key is gone: its priority cannot be raised
      return seen, how == 'error' and -3 or nil
    end
    claims[key] = { id = id, group = group }
    return nil
  elseif option.on_duplicate == 'error' then
    return holder, -3
  elseif option.on_duplicate ~= 'keep' and group ~= (earlier and earlier.group or string.match(record, GROUP)) then
    return holder, -4
  end
  return holder
end

local function claim_keys(ids, options, known, refused)
  local holders, claims, met = {}, {}, 0
  for i, id in ipairs(ids) do
    if not known[i] and options[i] and options[i].key ~= '' then
      local holder, status = claim(claims, id, options[i])
      if status then
        return holders, claims, met, refused or { status, i, holder }
      elseif holder then
        holders[i], met = holder, met + 1
      end
    end
  end
  return holders, claims, met, refused
end
