-- batch_list: read and write the texts of batches, and keep the list of those without live tasks, the oldest first.
-- In batches, the field TAB has the numbers of the first and the last entry of the list, and the field TAB number has
-- "moment name". A batch whose `listed` is 1 has an entry.
-- Needs: now
-- Gives: read_batch(text), the batch as a table, or nil; write_batch(name, batch);
--        list_batch(name, batch), which adds it to the list;
--        prune_batches(most), which removes batches over the caps: 10 000 in the list, and 90 days without a change. It
--        looks at `most` entries.
local MOST_LISTED, LONGEST = 10000, 7776000000

local function read_batch(text)
  local form = '^(%d+ %d+ %d+ %d+) ([osf]) (%d+ %d+ %d+ [01]) (%S*)$'
  local numbers, state, moments, callback = string.match(#(text or '') <= 400 and text or '', form)
  if not numbers then
    return nil
  end
  local batch = { state = state, callback = callback }
  batch.left, batch.done, batch.dead, batch.removed = string.match(numbers, '(%d+) (%d+) (%d+) (%d+)')
  batch.began, batch.changed, batch.finished, batch.listed = string.match(moments, '(%d+) (%d+) (%d+) (%d)')
  return batch
end

local function write_batch(name, batch)
  redis.call('HSET', batches, name, string.format('%.0f %.0f %.0f %.0f %s %s %s %s %s %s', batch.left, batch.done,
    batch.dead, batch.removed, batch.state, batch.began, batch.changed, batch.finished, batch.listed, batch.callback))
end

local function ends_of_list()
  local first, last = string.match(redis.call('HGET', batches, '\t') or '', '^(%d+) (%d+)$')
  return tonumber(first or 1), tonumber(last or 0)
end

local function store_entry(at, entry)
  redis.call('HSET', batches, string.format('\t%.0f', at), entry)
end

local function list_batch(name, batch)
  if batch.listed == '0' then
    local first, last = ends_of_list()
    redis.call('HSET', batches, '\t', string.format('%.0f %.0f', first, last + 1))
    store_entry(last + 1, batch.changed .. ' ' .. name)
    batch.listed = '1'
  end
end

-- Decides about the first entry. Returns nil if it stays; else true if its batch goes to the end of the list.
local function decide(entry, is_over)
  local at, name = string.match(entry or '', '^(%d+) (.*)$')
  local batch = name and read_batch(redis.call('HGET', batches, name))
  if batch and tonumber(batch.left) > 0 then
    batch.listed = '0'
    write_batch(name, batch)
  elseif batch and batch.changed ~= at then
    return true, batch.changed .. ' ' .. name
  elseif batch and not is_over and tonumber(at) > now - LONGEST then
    return nil
  elseif batch then
    redis.call('HDEL', batches, name)
  end
  return false
end

local function prune_batches(most)
  local first, last = ends_of_list()
  local from = first
  while first <= last and first - from < most do
    local field = string.format('\t%.0f', first)
    local again, entry = decide(redis.call('HGET', batches, field), last - first >= MOST_LISTED)
    if again == nil then
      break
    end
    redis.call('HDEL', batches, field)
    first = first + 1
    if again then
      last = last + 1
      store_entry(last, entry)
    end
  end
  if first > last then
    redis.call('HDEL', batches, '\t')
  elseif first > from then
    redis.call('HSET', batches, '\t', string.format('%.0f %.0f', first, last))
  end
end
