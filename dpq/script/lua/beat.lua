-- beat: store the heartbeat of a worker, or its end. Remove workers that sent no heartbeat for `forget` ms.
--
-- Keys: workers cancelled events changes
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id         of the worker
-- ARGV[3]  age        number: ms that the worker has been running
-- ARGV[4]  about      running, concurrency, pid, version TAB host TAB name; "" when the worker ends. The version is
--                     that of DPQ, or that, a slash, and the version of the program
-- ARGV[5]  forget     number: ms without a heartbeat after which a worker is removed
-- ARGV[6]  doing      how many leases the worker holds, ms of its longest running handler (-1 for none), id of that
--                     task ("-" for none), TAB, the tokens of its leases; "" when the worker holds no lease
-- ARGV[7]  quiet      "1" if the last answer that the worker has began with 1, else ""
--
-- Returns {quiet, token, ...}: 1 if the worker is to take no new tasks, else 0; then the tokens of its leases whose
-- tasks were cancelled. A worker that was removed meanwhile stays quiet: nothing has told it to go on. Each call
-- checks a few other workers, chosen at random; the last worker goes when the key expires. If a worker begins with
-- another version of its program than the one before, an event says so.
-- Lost reply: safe to send again; the second call's time then counts. The next heartbeat has the same answer.

-- Needs: now, event
redis.pcall('HDEL', workers, '') -- as in go_on
local more, mark = id .. '\t', id .. '\tquiet' -- fields of their own; all of a worker have the time of one heartbeat
local told
if about == '' then
  redis.call('HDEL', workers, id, more, mark)
else
  local is_new = redis.call('HSET', workers, id, stamp .. string.format(' %.0f ', now - age) .. about) == 1
  told = redis.call('HGET', workers, mark) or is_new and quiet == '1' and string.format('0\t%s\t', stamp)
  if told then
    redis.call('HSET', workers, mark, stamp .. string.match(told, '\t.*'))
  end
  if doing ~= '' then
    redis.call('HSET', workers, more, stamp .. ' ' .. doing)
  else
    redis.call('HDEL', workers, more)
  end
  redis.call('PEXPIRE', workers, forget)
  local program = is_new and string.match(about, '^%S+ %S+ %S+ [^/%s]*/(%S+)')
  local before = ''
  for _, event in ipairs(program and redis.pcall('XREVRANGE', changes, '+', '-', 'COUNT', '200') or {}) do
    if before == '' and event[2][2] == 'deployed' then
      before = string.match(event[2][10], '%S+$')
    end
  end
  if program and program ~= before then
    tell_change('deployed', '', 'version ' .. (before == '' and '' or before .. ' -> ') .. program)
  end
end
local drawn = redis.call('HRANDFIELD', workers, 10, 'WITHVALUES') or {}
for i = 1, #drawn, 2 do
  local seen = tonumber(string.match(drawn[i + 1], '^%d+') or 0)
  if seen + forget <= now then
    local gone = string.match(drawn[i], '^[^\t]*')
    redis.call('HDEL', workers, gone, gone .. '\t', gone .. '\tquiet')
  end
end
local said = { told and 1 or 0 }
if string.find(doing, '\t', 1, true) and redis.call('EXISTS', cancelled) == 1 then
  for token in string.gmatch(string.match(doing, '\t(.*)$'), '%S+') do
    said[#said + 1] = redis.call('ZSCORE', cancelled, token) and token or nil
  end
end
return said
