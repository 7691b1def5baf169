-- get: look at tasks by their ids.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  payload    HASH    id -> bytes
-- KEYS[7]  meta       HASH    id -> record
-- KEYS[8]  dead       ZSET    id -> when, ms
-- KEYS[9]  conf       HASH    settings
-- KEYS[10] keys       HASH    unique key -> id
-- ARGV[1..]            ids; or a TAB and a unique key
--
-- Returns {state, until, record, payload} for each, flat; state is "" for an unknown id. `until` is when
-- a delayed task is due, a lease ends or a dead task died, ms, or 0. Of a key the state is "state id".
-- Lost reply: safe to send again.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local payload, meta, dead, conf, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local args = ARGV

-- @include _record
-- @include _groups
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
  reply[#reply + 1] = raw or ''
  reply[#reply + 1] = raw and redis.call('HGET', payload, id) or ''
end
return reply
