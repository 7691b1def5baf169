-- remember: store what a queue counts and holds, once for each minute and once for each quarter of an hour.
-- docs/design.md, "History".
-- Needs: now, tally
-- Gives: remember(), which returns 1 if it has stored, 0 if the slot of this minute is stored already, or an error. The
--        slots are two rings, so their number is bounded: a day of minutes (m0 to m1439) and 14 days of quarters (q0 to
--        q1343). A slot begins with its moment. Then come the short name and the count of all that is not 0, then the
--        buckets. A third ring has what limits have granted, for an hour of minutes (u0 to u59).
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

local function remember()
  local fields = { string.format('m%d', math.floor(now / 60000) % 1440),
    string.format('q%d', math.floor(now / 900000) % 1344) }
  local stored = redis.pcall('HMGET', history, unpack(fields)) -- a key of another type has no slots
  local function stands(slot, length)
    local at = tonumber(string.match(stored[slot] or '', '^%d+ ') or '')
    return at and math.floor(at / length) == math.floor(now / length)
  end
  if stands(1, 60000) then
    return 0
  end
  local counts, buckets = tally()
  counts.closed_groups, counts.workers = redis.call('ZCARD', closed), 0
  for _, field in ipairs(redis.pcall('HRANDFIELD', workers, '10000') or {}) do -- all: a worker may have three
    counts.workers = counts.workers + (string.find(field, '\t', 1, true) and 0 or 1)
  end
  local texts = { stamp }
  for _, names in ipairs({ GAUGES, TOTALS }) do
    for i = 1, #names, 2 do
      local count = counts[names[i]]
      if count and (count ~= 0 or names[i] == 'oldest_ready') then
        texts[#texts + 1], texts[#texts + 2] = names[i + 1], string.format('%.0f', count)
      end
    end
  end
  for i = 1, #buckets, 2 do
    texts[#texts + 1], texts[#texts + 2] = buckets[i], string.format('%.0f', buckets[i + 1])
  end
  local slot = table.concat(texts, ' ') .. ' '
  local done = redis.pcall('HSET', history, fields[1], slot, stands(2, 900000) and fields[1] or fields[2], slot)
  local granted = granted_lines()
  if granted then
    redis.pcall('HSET', history, string.format('u%d', math.floor(now / 60000) % 60), stamp .. ' ' .. granted)
  end
  return tonumber(done) and 1 or done
end
