-- diagnose: read a part of the stored data, and find what is wrong with the states of a task, its payload and its key.
-- Needs: problem, groups, heads, order, scan
-- Gives: place_of(set, id, task): the right member of a task in ready or waiting; and the head of its group, if asked
--          for ready.
--        diagnose(id, task), which reports a wrong state, payload, key or head;
--        page_of(part, cursor, count): the key of the part, the next cursor, and the entries: name, value, ...
local function place_of(set, id, task)
  local member = task.order .. id
  if set == waiting then
    return behind(task.group, score_of(task), member)
  elseif task.group == '' then
    return member
  end
  local _, first, shown = head_of(task.group)
  return first == member and shown or member, first
end

local headless = {} -- groups that were reported

local function diagnose(id, task)
  local states = {}
  local function is_in(name, set, member)
    local found = redis.call('ZSCORE', set, member)
    states[#states + 1] = found and name or nil
    return found
  end
  is_in('delayed', delayed, id)
  is_in('invisible', invisible, id)
  is_in('dead', dead, id)
  local member, first = place_of(ready, id, task)
  if is_in('ready', ready, member) and task.group ~= '' and first ~= task.order .. id then
    problem('not the head', id, task.group)
  end
  if task.group ~= '' and is_in('waiting', waiting, place_of(waiting, id, task)) and not first
    and not headless[task.group] and not redis.call('ZSCORE', closed, task.group) then
    problem('no head', id, task.group)
    headless[task.group] = true
  end
  if #states ~= 1 then
    problem('in ' .. #states .. ' states', id, table.concat(states, ' '))
  end
  if task.inline == '' and redis.call('HEXISTS', payload, id) == 0 then
    problem('no payload', id)
  end
  if task.key ~= '' and redis.call('HGET', keys, task.key) ~= id then
    problem('key lost', id, task.key)
  end
end

local function payloads(cursor, count)
  local names, at, steps, bytes = {}, cursor, tonumber(count), 0
  repeat -- HSCAN also reads the payloads: large ones one by one
    local few = bytes < 1024 * #names and '16' or '1'
    local found = scan('HSCAN', payload, at, few)
    for i = 1, #found[2], 2 do
      names[#names + 1], names[#names + 2], bytes = found[2][i], '', bytes + #found[2][i + 1]
    end
    at, steps = found[1], steps - tonumber(few)
  until at == '0' or steps <= 0 or bytes > 1048576
  return { at, names }
end

local function page_of(part, cursor, count)
  local set = ({ ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead,
    meta = meta, batches = meta, payload = payload, keys = keys, groups = groups, followers = followers,
    limits = limits, tracked = tracked, leases = invisible })[part]
  if set ~= payload then
    local hash = set == meta or set == keys or set == groups or set == limits
    return set, scan(hash and 'HSCAN' or 'ZSCAN', set, cursor, count)
  end
  return set, payloads(cursor, count)
end
