-- keep_results: keep what finished tasks have returned, for a time. Each result has a number, one above the result
-- before it. The caps are 100 000 results, 64 MiB of JSON, and a million numbers. Over a cap the oldest results go
-- first, even if their time is not over. docs/storage.md, "Results".
-- Needs: now
-- Gives: keep_results(ids, lines, reply, clock), for tasks, lines, a reply and a time as ack has them. The reply names
--        the tasks that ack has not finished. It also removes some results whose time is over, and calls the callers
--        that wait for these tasks.
local function results_in(ids, lines, reply)
  local passed, found, i = {}, {}, 0
  for n = 1, #reply, 2 do
    passed[reply[n]] = true
  end
  for line in string.gmatch(lines, '([^\n]*)\n') do
    i = i + 1
    local ms, body = string.match(line, '^(%d+) (.*)$')
    if ms and not passed[i] then
      found[#found + 1], found[#found + 2], found[#found + 3] = ids[i], ms, body
    end
  end
  return found
end

local function keep_results(ids, lines, reply, clock)
  local MOST_FIELDS, MOST_BYTES, MOST_NUMBERS, DRAWN = 300000, 67108864, 1000000, 6
  local first, last, bytes, ends = string.match(redis.call('HGET', results, '') or '', '^(%d+) (%d+) (%d+) (%d+)$')
  last = tonumber(last or '') or now * 1000 -- so that a cursor of results that are gone still comes before new ones
  first, bytes, ends = tonumber(first or '') or last + 1, tonumber(bytes or '') or 0, tonumber(ends or '') or 0
  local channel = 'dpq:calls:{' .. string.match(meta, '^dpq:{([^{}]*)') .. '}'
  local found, added = results_in(ids, lines, reply), {}
  local function head()
    return string.format('%.0f %.0f %.0f %.0f', first, last, bytes, ends)
  end

  local function remove(number)
    local length, id = string.match(redis.call('HGET', results, number) or '', '^%d+ %d+ (%d+) (.*)$')
    local newest = id and string.match(redis.call('HGET', results, '=' .. id) or '', '^%d+')
    bytes = math.max(0, bytes - (tonumber(length or '') or 0))
    redis.call('HDEL', results, number, number .. '.', newest == number and '=' .. id or number)
    return id
  end

  for i = 1, #found, 3 do
    local id, body, expires = found[i], found[i + 2], now + found[i + 1]
    last, bytes, ends = last + 1, bytes + #body, math.max(ends, expires)
    local number = string.format('%.0f', last)
    added[#added + 1], added[#added + 2] = number, string.format('%.0f %s %d %s', expires, stamp, #body, id)
    added[#added + 1], added[#added + 2] = number .. '.', body
    added[#added + 1], added[#added + 2] = '=' .. id, string.format('%s %.0f', number, expires)
  end
  if added[1] then
    redis.call('HSET', results, '', head(), unpack(added))
    if clock == '' then -- the clock of a test is not that by which keys expire
      redis.pcall('PEXPIRE', results, string.format('%.0f', ends - now))
    end
  elseif first > last then
    redis.call('HDEL', results, '')
  end

  for _, field in ipairs(redis.pcall('HRANDFIELD', results, DRAWN) or {}) do
    local number, expires = string.match(string.byte(field) == 61 and redis.call('HGET', results, field) or '',
      '^(%d+) (%d+)$')
    if number and tonumber(expires) <= now then
      remove(number)
    end
  end
  local fields, steps = redis.call('HLEN', results), 8 + #found
  for i = 3, #found, 3 do
    steps = steps + #found[i] / 671 -- the mean of both caps: so bytes never grow far above theirs
  end
  while steps > 0 and first < last do
    local number = string.format('%.0f', first)
    local expires = tonumber(string.match(redis.call('HGET', results, number) or '', '^%d+') or 0)
    if expires > now and fields <= MOST_FIELDS and bytes <= MOST_BYTES and last - first < MOST_NUMBERS then
      break
    end
    fields = remove(number) and fields - 3 or fields
    first, steps = first + 1, steps - 1
  end
  if added[1] then
    redis.call('HSET', results, '', head())
  end
  for i = 1, #found, 3 do
    redis.pcall('PUBLISH', channel, found[i])
  end
end
