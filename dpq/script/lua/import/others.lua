-- others: add what an import has beside tasks.
-- Needs: now, batch_list, batches, seen, record, notes, followed
-- Gives: key_holder(key), the id of the task that has a key, or nil;
--        add_other(kind, name, text), for a gate, a batch or a seen key, unless the queue has one of that name; and
--        for what comes behind all tasks.
local function key_holder(key)
  local id, ends = string.match(redis.call('HGET', keys, key) or '', '^([^\t]+)\t?(%d*)')
  return not (tonumber(ends or '') and tonumber(ends) <= now) and id or nil
end

local function add_other(kind, name, text)
  if kind == 'gate' then
    redis.call('HSETNX', name == '' and conf or gates, name == '' and 'queue_gate' or name, text)
    redis.call('HSET', conf, 'gated', '1')
  elseif kind == 'batch' then
    local batch = redis.call('HEXISTS', batches, name) == 0 and read_batch(text)
    if batch then
      batch.listed = '0'
      if tonumber(batch.left) == 0 then
        list_batch(name, batch)
      end
      write_batch(name, batch)
    end
  elseif kind == 'seen' then
    local id, ends, group = string.match(text, '^([^\t]+)\t(%d+)\t?([^\t]*)$')
    if id and #ends <= 16 and tonumber(ends) > now and not key_holder(name) then
      see_key(name, id, ends, group)
    end
  elseif kind == 'ahead' then
    local raw = redis.call('HGET', meta, name)
    local task = read(raw or '')
    if not raw or redis.call('ZSCORE', dead, name) then
      end_followed(name, AFTER .. '+', raw and 'dead' or 'done')
    elseif task and not string.find(raw, FOLLOWED) then
      set_note(task, AFTER, '+' .. (note_of(task, AFTER) or ''))
      redis.call('HSET', meta, name, write(task))
    end
  elseif kind == 'sealed' then
    local batch = batch_of(name)
    if batch.new or batch.callback ~= text then
      release_waiting(text)
    else
      keep_batch(name, batch)
    end
  end
end
