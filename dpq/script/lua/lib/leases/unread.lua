-- unread: end the lease of a task whose record cannot be read.
-- Needs: ended
-- Gives: end_unread(id).
local function end_unread(id)
  local found = redis.call('ZSCAN', tracked, '0', 'MATCH', '*\t' .. id, 'COUNT', '10000')[2]
  for n = 1, #found, 2 do
    local group, member = string.match(found[n], '^([^\t]*)\t?(.-)\t?[^\t]*$')
    ended({ id, group, member ~= '' and member }, true)
  end
end
