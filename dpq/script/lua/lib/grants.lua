-- grants: read what limits have granted since they stand, and how many 429s their tasks met.
-- Keys: conf limits gates
-- Gives: granted_lines(), a text for the ring of `history`, or nil if no limit has granted. It has a line for each
--        scope, which is "" for the queue, a group, or a group TAB a member. A line has the 429s, then name and units
--        of each window (gate), then TAB and the scope. Only the own limits of a queue with few of them are read, and
--        the text ends at a bound. So the call costs about as much for each queue.
local LIMITS_READ, LINES_BYTES = 64, 8000

local function granted_lines()
  local count = tonumber(redis.pcall('HLEN', limits)) or LIMITS_READ + 1
  local found = count > 0 and count <= LIMITS_READ and redis.pcall('HGETALL', limits) or {}
  local scopes, lines, size = {}, {}, 0
  for i = 1, #found, 2 do
    local group, pool = string.match(found[i], '^group:(.*)$'), string.find(found[i + 1], '\t', 1, true)
    for member in string.gmatch(group and pool and found[i + 1] or '', '\t([^\t]*)') do
      scopes[#scopes + 1] = group .. '\t' .. member
    end
    scopes[#scopes + 1] = not pool and group or nil
  end
  local texts = scopes[1] and redis.pcall('HMGET', gates, unpack(scopes)) or {}
  table.insert(scopes, 1, '')
  table.insert(texts, 1, redis.pcall('HGET', conf, 'queue_gate'))
  for i, scope in ipairs(scopes) do
    local text = type(texts[i]) == 'string' and texts[i] or ''
    local line, rest = string.match(text, ' R:(%d+)( .*)$')
    while rest do
      local name, units, more = string.match(rest, '^ G([%w_]+):(%d+)( .*)$')
      line, rest = name and string.format('%s %s %s', line, name, units) or line, more
    end
    size = size + #(line or '') + #scope + 2
    lines[#lines + 1] = line and size <= LINES_BYTES and line .. '\t' .. scope or nil
  end
  return lines[1] and table.concat(lines, '\n')
end
