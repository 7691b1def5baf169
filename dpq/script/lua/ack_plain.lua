-- ack_plain: remove a finished task, if there is nothing to decide. It is the short way of ack.
--
-- Keys: invisible meta stats tracked ready waiting groups closed conf wake tick limits gates
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
--
-- Returns {} as ack does. {-5}: the caller is to call ack, and nothing has changed. This is the reply if the task is
-- gone; if another delivery has it; if it has no short record with its payload behind it (record); if its lease has
-- ended; if the queue counts leases itself, or producers wait for room; if the gate of its group holds more than
-- grants; and if the group is closed and stays full, or has a limit that is more than one window and a
-- concurrency. Else a closed group opens, or gets the moment at which its window lets it.
-- For a task without a group the keys after the fourth may be left out: each takes time.
-- Lost reply: the second call finds the task gone, and so does ack.

-- Needs: now, times, layout
local there = redis.call('EXISTS', tracked)
local raw = redis.call('HGET', meta, id)
local claim, at = string.match(raw or '', SHORT_CLAIM)
if claim ~= token or not string.find(raw, '\n', at, true) then
  return { -5 }
end
local lease, group, opens, settings
if there > 0 then
  group = string.match(raw, GROUP)
  local text = group ~= '' and redis.call('HGET', gates, group)
  lease = group ~= '' and group .. '\t' .. id
  if redis.call('ZRANGEBYLEX', tracked, '[\t', '(\15', 'LIMIT', '0', '1')[1] -- of the queue, or of producers
    or text and (string.byte(text) ~= 45 or string.find(text, ' B:', 1, true)) then
    return { -5 }
  end
  local shut_until = lease and redis.call('ZSCORE', closed, group)
  if shut_until then -- it may open, as by open_or_close
    -- Needs: plain_gate
    settings = redis.call('HMGET', conf, 'heavy', 'fairness', 'shut_until')
    local gate = (settings[2] or 'none') == 'none' and redis.call('ZSCORE', tracked, lease)
      and group_gate(group, text, settings[1])
    opens = gate and gate.out and gate.out <= gate.rules.concurrency and plain_at(gate)
    if opens == tonumber(shut_until) and opens > instant then
      opens = nil -- it is closed for its window, not for its leases
    elseif not opens or redis.call('HEXISTS', groups, group) == 1 then
      return { -5 }
    end
  end
end
if redis.call('ZREM', invisible, id) == 0 then
  return { -5 }
end
redis.call('HDEL', meta, id)
if lease then
  redis.call('ZREM', tracked, lease)
end
count_time(string.sub(token, 1, -3), 10)
store_times('r')
if opens then
  -- Needs: notice, heads
  if opens > instant then
    redis.call('ZADD', closed, string.format('%.17g', opens), group)
    notice(opens - now)
  elseif redis.call('ZREM', closed, group) == 1 and raise_heir(group) then
    rouse(1, settings[3])
  end
end
return {}
