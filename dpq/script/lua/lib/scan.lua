-- scan: read a page of a hash or a sorted set, for a walk over many calls. A cursor of SCAN means nothing to another
-- process of the server, since that hashes with another seed. So a cursor names its process (run_id). Any other process
-- begins the walk anew: after a restart, a failover, or when the slot has moved. So an entry that is stored all the
-- time is on a page once at least, and may be on several. If the user may not call INFO, this goes unnoticed.
-- Gives: scan(verb, key, cursor, count), which returns what HSCAN or ZSCAN does. "0" begins, and is the end.
local process
local function this_process()
  if not process then
    local info = redis.pcall('INFO', 'server')
    process = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
  end
  return process
end

local function scan(verb, key, cursor, count)
  local at, of = string.match(cursor, '^(%d+):(%x*)$')
  local page = redis.call(verb, key, of == (at and this_process()) and at or '0', 'COUNT', count)
  if page[1] ~= '0' then
    page[1] = page[1] .. ':' .. this_process()
  end
  return page
end
