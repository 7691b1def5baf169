-- types: find keys of another type than DPQ writes. Such a key holds no task, and a script that needs it
-- fails in its middle.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers history events changes batches followers cancelled results progress
--       recent
--
-- Returns as check does: {"0", kind, subject, detail, kind, ...}; the subject is the key.
-- Lost reply: safe to send again.

-- Needs: refusal, problem
local format = redis.pcall('HGET', conf, 'format')
local refused = refusal(not (format and format.err) and format) -- conf may be of another type
if refused then
  return refused
end

-- Finds the wrong type by the commands that a dashboard may call, not by TYPE.
local function look(command, kind, names)
  for _, key in ipairs(names) do
    local size = redis.pcall(command, key)
    if not tonumber(size) then
      if not string.find(size.err, 'WRONGTYPE', 1, true) then
        return size
      end
      problem('wrong type', key, 'not a ' .. kind)
    end
  end
end

local failed = look('ZCARD', 'sorted set', { ready, delayed, invisible, waiting, closed, dead, wake, tick, tracked,
    cancelled, recent, followers })
  or look('HLEN', 'hash', { groups, payload, meta, keys, conf, stats, limits, gates, workers,
    history, batches, results, progress })
  or look('XLEN', 'stream', { events, changes })
return failed or reply
