-- export: read tasks, limits, gates, batches or seen keys for an export, a page at a time.
--
-- Keys: delayed payload meta dead limits gates batches tracked keys
-- ARGV[1]  part       tasks, limits, gates, batches or seen
-- ARGV[2]  cursor     "0" to begin; "" reads the tasks with the ids that follow
-- ARGV[3]  count      entries of a page, about
-- ARGV[4]  max_bytes  number: bytes of payloads over 512 bytes, at most (the first one comes whatever its size)
-- ARGV[5..]            ids
--
-- Returns the cursor of the next page, "0" at the end. Then, flat: name and text of each limit, gate, batch or seen
-- key; or id, state, when, record and payload of each task. The state is ready, delayed, held or dead: a running task,
-- and a task that waits for its group, is ready; a delayed task that holds its group in order (counted) is held. `when`
-- is the moment in delayed or dead, ms, else 0. A payload without room on this page gives the state "later": ask for it
-- by its id; a missing one is "". What is stored all the time is on a page once at least.
-- Lost reply: safe to send again.

-- Needs: body, scan
if part ~= 'tasks' then
  local hash = ({ limits = limits, gates = gates, batches = batches, seen = keys })[part]
  local page = scan('HSCAN', hash, cursor, count)
  local found = {}
  for i = 1, #page[2], 2 do
    if part ~= 'seen' or string.find(page[2][i + 1], '\t', 1, true) then -- else it is the id of a stored task
      found[#found + 1], found[#found + 2] = page[2][i], page[2][i + 1]
    end
  end
  return { page[1], unpack(found) }
end
local reply, raws = { '0' }, {}
if cursor == '' then
  for i = 5, #args do
    raws[#raws + 1], raws[#raws + 2] = args[i], redis.call('HGET', meta, args[i])
  end
else
  local page = scan('HSCAN', meta, cursor, count)
  reply[1], raws = page[1], page[2]
end
local first = true
for i = 1, #raws, 2 do
  local id, raw, state, when = raws[i], raws[i + 1], 'ready', '0'
  if raw then
    for kind, set in pairs({ delayed = delayed, dead = dead }) do
      local score = redis.call('ZSCORE', set, id)
      if score then
        state, when = kind, score
      end
    end
    local group = state == 'delayed' and string.match(raw, '\t([^\t\n]*)')
    if group and redis.call('ZSCORE', tracked, group .. '\t' .. id) then
      state = 'held'
    end
    local size = string.find(raw, '\n', 1, true) and 0 or redis.call('HSTRLEN', payload, id)
    local record, body
    if size > max_bytes and not first then
      record, body, state = '', '', 'later'
    else
      record, body = record_and_body(id, raw)
      max_bytes, first = max_bytes - size, first and size == 0
    end
    for _, value in ipairs({ id, state, when, record, body or '' }) do
      reply[#reply + 1] = value
    end
  end
end
return reply
