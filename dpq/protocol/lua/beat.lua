-- beat: store the heartbeat of a worker, or its end. Remove workers that sent no heartbeat for `forget` ms.
--
-- Keys: workers cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id         of the worker
-- ARGV[3]  age        ms that the worker has been running
-- ARGV[4]  about      running, concurrency, pid TAB host TAB name; "" when the worker ends
-- ARGV[5]  forget     ms without a heartbeat after which a worker is removed
-- ARGV[6]  doing      how many leases the worker holds, ms of its longest running handler (-1 for none), id of that
--                     task ("-" for none), TAB, the tokens of its leases, each with ":" and its partition if that is
--                     not the first; "" when the worker holds no lease
--
-- Returns the tokens of its leases whose tasks were cancelled; of several partitions, those of the first. Each call
-- checks a few other workers, chosen at random. All workers call equally often, so all get
-- checked. If no worker is left to remove the last worker, the key expires by itself.
-- Lost reply: safe to send again; the second call's time then counts.
local time, id, age, about, forget = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local doing = ARGV[6]

-- Needs: now
redis.pcall('HDEL', workers, '') -- as in go_on
local more = id .. '\t' -- its own field: an older DPQ ignores it, and removes it after `forget` ms
if about == '' or doing == '' then
  redis.call('HDEL', workers, more)
end
if about == '' then
  redis.call('HDEL', workers, id)
else
  redis.call('HSET', workers, id, stamp .. string.format(' %.0f ', now - age) .. about)
  if doing ~= '' then
    redis.call('HSET', workers, more, stamp .. ' ' .. doing)
  end
  redis.call('PEXPIRE', workers, forget)
end
local drawn = redis.call('HRANDFIELD', workers, 10, 'WITHVALUES') or {}
for i = 1, #drawn, 2 do
  local seen = tonumber(string.match(drawn[i + 1], '^%d+') or 0)
  if seen + forget <= now then
    redis.call('HDEL', workers, drawn[i])
  end
end
local said = {}
if string.find(doing, '\t', 1, true) and redis.call('EXISTS', cancelled) == 1 then
  for token in string.gmatch(string.match(doing, '\t(.*)$'), '%S+') do
    said[#said + 1] = redis.call('ZSCORE', cancelled, token) and token or nil
  end
end
return said
