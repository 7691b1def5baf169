-- holder: find who holds the concurrency of a scope. It looks at 100 leases at most.
-- Needs: booked, layout
-- Gives: oldest_of(ids), the id that was popped first, its token and its group; or three empty texts;
--        holder_of(scope): the same of the leases of a scope, how many permits have a lease, and the end of the first
--        of them, ms, or "".
local function oldest_of(ids)
  local oldest, first, group = '', '', ''
  for i, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
    local token = string.match(raw or '', '^%d+')
    if token and #token <= 16 and (first == '' or tonumber(token) < tonumber(first)) then
      oldest, first, group = ids[i], token, string.match(raw, GROUP) or ''
    end
  end
  return oldest, first, group
end

local function holder_of(scope)
  local ids, ends = {}, ''
  local from = '[' .. scope .. '\t'
  for _, entry in ipairs(redis.call('ZRANGE', tracked, from, '(' .. scope .. '\n', 'BYLEX', 'LIMIT', '0', '100')) do
    local name = string.match(entry, '[^\t]*$')
    if is_permit(name) and permit_out(name) then
      local till = string.match(name, '^~0*(%d+)')
      ends = (ends == '' or tonumber(till) < tonumber(ends)) and till or ends
    elseif name ~= '' and not is_permit(name) then
      ids[#ids + 1] = name
    end
  end
  if scope == '' then
    ids = redis.call('ZRANGE', invisible, '0', '99')
  end
  local id, token = oldest_of(ids)
  return { id, token, string.format('%.0f', running(scope)), ends }
end
