-- types: find keys of another type than DPQ writes, and on demand remove them. Such a key holds no task, and a script
-- that needs it fails in its middle.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers history events trail batches followers cancelled results progress errors
--       recent
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  remove     "1": remove them; else only find them
-- ARGV[3]  partitions of the queue; 0 if the caller does not know: then conf is not removed, since a new conf
--          must say how many there are
--
-- Returns as check does: {"0", kind, subject, detail, kind, ...}; the subject is the key. {-8, ...}: the client knows
-- another format (refusal).
-- Lost reply: safe to send again; a removed key is not named a second time.
local time, remove, partitions = ARGV[1], ARGV[2], ARGV[3]

-- Needs: now, refusal, problem
local format = redis.pcall('HGET', conf, 'format')
local refused = refusal(not (format and format.err) and format, nil, '0') -- conf may be of another type
if refused then
  return refused
end
local gone = {}
local kept = remove == '1' and partitions == '0' and conf
reply[1] = '0'

-- Finds the wrong type by the commands that a dashboard may call, not by TYPE.
local function look(command, kind, names)
  for _, key in ipairs(names) do
    local size = redis.pcall(command, key)
    if key ~= kept and not tonumber(size) then
      if not string.find(size.err, 'WRONGTYPE', 1, true) then
        return size
      end
      problem('wrong type', key, 'not a ' .. kind)
      if remove == '1' then
        redis.call('UNLINK', key)
        gone[key] = true
      end
    end
  end
end

local failed = look('ZCARD', 'sorted set', { ready, delayed, invisible, waiting, closed, dead, wake, tick, tracked,
    cancelled, recent, followers })
  or look('HLEN', 'hash', { groups, payload, meta, keys, conf, stats, limits, gates, workers,
    history, batches, results, progress, errors })
  or look('XLEN', 'stream', { events, trail })
if gone[stats] then -- the sequence is lost: new tasks go behind all others
  redis.call('HSET', stats, 'pushed', stamp)
end
if gone[conf] then -- the turns are lost, too; the limits stay
  redis.call('HSET', conf, 'turns', stamp, 'heavy', '1')
  redis.call('HSET', conf, 'gated', '1')
  if partitions ~= '1' then
    redis.call('HSET', conf, 'partition_count', partitions)
  end
end
return failed or reply
