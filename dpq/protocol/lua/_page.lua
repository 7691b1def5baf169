-- _page: a bounded part of what is stored, for whoever walks through all of it.
-- Wants: the sets and hashes of a queue; part, cursor, count.
-- Gives: set; page, the next cursor and the entries of it: name, value, ...
local set = ({ ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead,
  closed = closed, meta = meta, payload = payload, keys = keys, groups = groups })[part]
local page
if set ~= payload then
  local hash = set == meta or set == keys or set == groups
  page = redis.call(hash and 'HSCAN' or 'ZSCAN', set, cursor, 'COUNT', count)
elseif redis.call('HLEN', payload) <= redis.call('HLEN', meta) then
  page = { '0', {} } -- each record was seen to have one, so there are no others
else
  local names, at, steps, bytes = {}, cursor, tonumber(count), 0
  repeat -- one by one: a page of payloads could be a lot
    local found = redis.call('HSCAN', payload, at, 'COUNT', '1')
    for i = 1, #found[2], 2 do
      names[#names + 1], names[#names + 2], bytes = found[2][i], '', bytes + #found[2][i + 1]
    end
    at, steps = found[1], steps - 1
  until at == '0' or steps <= 0 or bytes > 1048576
  page = { at, names }
end
