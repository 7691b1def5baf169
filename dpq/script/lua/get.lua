-- get: read tasks by their ids or keys.
--
-- Keys: ready delayed invisible groups payload meta dead keys
-- ARGV[1..]            ids; or a TAB and a unique key
--
-- Returns flat: state, until, record and payload for each argument. State is "" if no task has the id; for a key it is
-- "state id". `until` is when a delayed task is due, a lease ends, or a dead task died, ms; else 0.
-- Lost reply: safe to send again.

-- Needs: record, groups, body
local reply = {}
for _, name in ipairs(args) do
  local key = string.match(name, '^\t(.*)$')
  local id = key and (redis.call('HGET', keys, key) or '') or name
  local raw, state, when = redis.call('HGET', meta, id), '', '0'
  if raw then
    for kind, set in pairs({ delayed = delayed, invisible = invisible, dead = dead }) do
      local score = redis.call('ZSCORE', set, id)
      if score then
        state, when = kind, score
      end
    end
    if state == '' then
      local task = read(raw)
      local member = task and task.order .. id
      local _, first, shown = head_of(task and task.group or '')
      state = task and redis.call('ZSCORE', ready, first == member and shown or member) and 'ready' or 'waiting'
    end
  end
  reply[#reply + 1] = key and raw and state .. ' ' .. id or state
  reply[#reply + 1] = when
  local record, body
  if raw then
    record, body = record_and_body(id, raw)
  end
  reply[#reply + 1] = record or ''
  reply[#reply + 1] = body or ''
end
return reply
