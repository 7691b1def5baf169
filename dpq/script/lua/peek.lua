-- peek: read the first tasks of a state, in the order of that state.
--
-- Keys: ready delayed invisible waiting payload meta dead
-- ARGV[1]  state      ready, delayed, invisible, waiting or dead
-- ARGV[2]  start      number: the first rank, from 0
-- ARGV[3]  most       number: tasks at most
-- ARGV[4]  max_bytes  number: payload bytes at most (the first task comes whatever its size)
--
-- Returns flat: id, until, record and payload of each task. `until` is as in get. For a ready task the score and the
-- order, with which its member begins, stand in its place.
-- Lost reply: safe to send again.

-- Needs: member, body
local sets = { ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead }
local set, reply = sets[state], {}
local members = redis.call('ZRANGE', set, start, start + most - 1, 'WITHSCORES')
for i = 1, #members, 2 do
  local id, order = split(set, members[i])
  local record, body = record_and_body(id, redis.call('HGET', meta, id) or '')
  max_bytes = max_bytes - #(body or '')
  if max_bytes < 0 and i > 1 then
    break
  end
  reply[#reply + 1] = id
  reply[#reply + 1] = set == ready and members[i + 1] .. ' ' .. order or set == waiting and '0' or members[i + 1]
  reply[#reply + 1] = record
  reply[#reply + 1] = body or ''
end
return reply
