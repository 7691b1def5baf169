-- page: read a bounded part of the stored data, for a walk through all of it.
-- Needs: scan
-- Gives: page_of(part, cursor, count): the key of the part, the next cursor, and the entries: name, value, ...
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
    closed = closed, meta = meta, payload = payload, keys = keys, groups = groups,
    followers = followers })[part]
  if set ~= payload then
    local hash = set == meta or set == keys or set == groups
    return set, scan(hash and 'HSCAN' or 'ZSCAN', set, cursor, count)
  end
  return set, payloads(cursor, count)
end
