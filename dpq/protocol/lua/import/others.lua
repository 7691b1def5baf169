-- others: add what an import has beside tasks.
-- Keys: batches gates keys conf
-- Needs: now, batch_list, mark, seen
-- Gives: key_holder(key), the id of the task that has a key, or nil;
--        add_other(kind, name, text), for a gate, a batch or a seen key, unless the queue has one of that name.
local function key_holder(key)
  local id, ends = string.match(redis.call('HGET', keys, key) or '', '^([^\t]+)\t?(%d*)')
  return not (tonumber(ends or '') and tonumber(ends) <= now) and id or nil
end

local function add_other(kind, name, text)
  if kind == 'gate' then
    redis.call('HSETNX', name == '' and conf or gates, name == '' and 'queue_gate' or name, text)
    mark()
  elseif kind == 'batch' then
    local batch = redis.call('HEXISTS', batches, name) == 0 and batch_list().parsed(text)
    if batch then
      batch.listed = '0'
      if tonumber(batch.left) == 0 then
        batch_list().add(name, batch)
      end
      batch_list().write(name, batch)
    end
  elseif kind == 'seen' then
    local id, ends, group = string.match(text, '^([^\t]+)\t(%d+)\t?([^\t]*)$')
    if id and #ends <= 16 and tonumber(ends) > now and not key_holder(name) then
      see_key(name, id, ends, group)
    end
  end
end
