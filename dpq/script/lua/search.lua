-- search: read tasks of one state that pass a filter, in the order of that state or back, from a position on.
--
-- Keys: ready delayed invisible waiting payload meta dead
-- ARGV[1]  state      ready, delayed, invisible, waiting or dead
-- ARGV[2]  score      the score of the member behind which to begin; "" to begin with the first
-- ARGV[3]  member     that member; it need not be there any more
-- ARGV[4]  most       number: tasks to find at most; 0 only counts them
-- ARGV[5]  look       number: tasks to look at, at most
-- ARGV[6]  max_bytes  number: payload bytes at most (the first task comes whatever its size)
-- ARGV[7]  group      the group of the tasks, or "" for any
-- ARGV[8]  least      number: the lowest priority, or "" for any
-- ARGV[9]  text       a part of group, key, error or payload, or the first 8 or more characters of an id; "" for any
-- ARGV[10] reason     the reason of a dead task, with "#" for each number, or "" for any
-- ARGV[11] fault      the first 200 bytes of the task's last error, with "#" in the same way; "-" for any
-- ARGV[12] recurs     "1" for recurring tasks only
-- ARGV[13] blind      "1" does not search payloads for the text
-- ARGV[14] highest    number: the highest priority, or "" for any
-- ARGV[15] prefix     the beginning of the key, or "" for any
-- ARGV[16] age        number: ms since the push at least, of dead tasks since the death; "" for any
-- ARGV[17] time       ms, or "" for the server's clock
-- ARGV[18] newest     "1" goes back from the last task of the state
--
-- Returns a flat list: how many tasks passed; how many were looked at; how many are left behind them; the score and the
-- member of the last task that was looked at, "" for none; then id, until, record and payload of each task that was
-- found. `until` is as in get. It changes nothing.
-- Lost reply: safe to send again.

-- Needs: order, body, shape
local sets = { ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead }
local set, sizes, way = sets[state], max_bytes, newest == '1' and { 'REV' } or {}

-- Compares bytes, since `<` follows the locale.
local function after(left, right)
  for i = 1, math.min(#left, #right) do
    local a, b = string.byte(left, i), string.byte(right, i)
    if a ~= b then
      return a > b
    end
  end
  return #left > #right
end

local first, stop = 0, redis.call('ZCARD', set)
if score ~= '' then
  local low, high, from = 0, stop, tonumber(score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local seen = redis.call('ZRANGE', set, middle, middle, 'WITHSCORES')
    local there = tonumber(seen[2])
    if there > from or there == from and after(seen[1], member) then
      high = middle
    else
      low = middle + 1
    end
  end
  first = way[1] and stop - low + (redis.call('ZSCORE', set, member) == score and 1 or 0) or low
end
if group ~= '' and set == waiting then -- the tasks of a group stand together
  first = math.max(first, redis.call('ZLEXCOUNT', set, '-', '(' .. group .. '\t'))
  stop = redis.call('ZLEXCOUNT', set, '-', '(' .. group .. '\n')
end

local passed, looked, reply = 0, 0, { 0, 0, 0, '', '' }
local passes = filtered({ group = group, least = least, text = text, reason = reason, fault = fault, recurs = recurs,
  blind = blind, highest = highest, prefix = prefix, age = age })
local full = false
while not full and looked < look and first + looked < stop do
  local from = first + looked
  local to = math.min(from + 99, first + look - 1, stop - 1)
  local page = redis.call('ZRANGE', set, from, to, unpack(way))
  local ids = {}
  for i = 1, #page do
    ids[i] = (split(set, page[i]))
  end
  local records = redis.call('HMGET', meta, unpack(ids))
  for i, id in ipairs(ids) do
    local raw = records[i] or '' -- a lost record is read as a bad one
    if passes(id, raw) then
      if most > 0 then
        local record, body = record_and_body(id, raw)
        sizes = sizes - #(body or '')
        if sizes < 0 and passed > 0 then
          full = true
          break
        end
        local timed = state ~= 'ready' and state ~= 'waiting'
        for _, value in ipairs({ id, timed and redis.call('ZSCORE', set, page[i]) or '0', record, body or '' }) do
          reply[#reply + 1] = value
        end
      end
      passed = passed + 1
    end
    looked = looked + 1
    reply[5] = page[i]
    full = most > 0 and passed == most
    if full then
      break
    end
  end
end
reply[1], reply[2], reply[3] = passed, looked, math.max(0, stop - first - looked)
reply[4] = looked > 0 and redis.call('ZSCORE', set, reply[5]) or ''
return reply
