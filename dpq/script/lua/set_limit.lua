-- set_limit: set or remove the limit of the queue, of a group, or of every group without a limit of its own.
--
-- Keys: ready invisible waiting groups closed meta conf wake tick limits gates tracked events
--       changes
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  field      "queue", "groups" or "group:" and a name
-- ARGV[3]  rules      the text of docs/storage.md, "Rules"; "" removes them
-- ARGV[4]  is_heavy     "1": tasks may need different amounts of the limit
-- ARGV[5]  walk       "set" to begin, then the `walk` of the last answer: "leases", "gates" or "closed"
-- ARGV[6]  cursor     "0" to begin, then the `cursor` of the last answer
-- ARGV[7]  reset      digits that the caller has made up, to let the limit begin anew; "" if it goes on
-- ARGV[8]  by         the person or program that changes the limit, for the event; "" if it is not known
-- ARGV[9]  expected   the rules that must stand, as plain_rules writes them, "" for no limit; or left out
--
-- Returns {walk, cursor} for the next call, or {"done", "0"}. The rules hold from the first call on. Each call counts
-- about 400 running tasks, or sets new times for closed groups. Units granted before in a window of the same length
-- still count; a learned rate and a closing stay. A reset forgets these units and the rate, but not the closing; that
-- of all groups' limit does so for one group after the other. {"changed", the rules that stand}: other rules than the
-- expected ones stand, and nothing has changed.
-- Lost reply: safe to send again; a reset is not done twice. The rules of the call then stand, and count as expected.

reset = reset ~= '' and reset
local counts_periods, differs = string.find(rules, '|%u'), false

-- Needs: now, refusal, go_on
local refused = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
end
-- Needs: rules
local hash, name = hash_of(field)
local before, stood
if walk == 'set' then
  before, stood = stored_rules(hash, name)
  if expected and stood ~= expected and stood ~= plain_rules(rules) then
    return { 'changed', stood }
  end
end
go_on()
if walk == 'set' then
  differs = before ~= rules
  counts_periods = differs and (counts_periods or string.find(before or '', '|%u')) -- else each count goes on
  if (counts_periods or differs and string.find(rules, ' m', 1, true)) and field == 'groups' then
    -- the gates of open groups see this moment when they are read
    redis.call('HSET', conf, 'realigned', string.format('%.0f', now))
  end
  if rules == '' then
    redis.call('HDEL', hash, name)
  else
    redis.call('HSET', hash, name, rules)
  end
  if redis.call('HLEN', limits) + redis.call('HLEN', gates) > 0 or redis.call('HEXISTS', conf, 'queue_rules') == 1 then
    redis.call('HSET', conf, 'gated', '1')
  else
    redis.call('HDEL', conf, 'gated')
  end
  if is_heavy == '1' then
    redis.call('HSET', conf, 'heavy', '1')
  end
  if stood ~= plain_rules(rules) or reset then
    -- Needs: event
    local text = rules == '' and 'removed' or plain_rules(rules)
    tell_change('limit_set', field == 'groups' and '*' or string.sub(field, 7), text, 'before', stood, 'by', by or '')
  end
  redis.call('HDEL', conf, 'shut_until', 'watched') -- wake a waiter whose sleep follows the old limit
  redis.call('ZADD', wake, '0', 'w')
  walk = string.match(rules, '^0') and 'gates' or field ~= 'queue' and 'leases' or 'gates'
end
-- Needs: record, gate, open_or_close, place, counted, reset, scan
seen.realign = counts_periods
if field ~= 'groups' and (differs or reset) then
  begin_anew(string.sub(field, 7), differs, reset)
end
if walk == 'leases' then
  local page = scan('ZSCAN', invisible, cursor, '400')
  for i = 1, #page[2], 2 do
    local id = page[2][i]
    local task = read(redis.call('HGET', meta, id) or '')
    if task then
      count_anew(id, task)
    end
  end
  walk, cursor = page[1] == '0' and 'gates' or walk, page[1]
end
if walk == 'gates' then
  cursor = field == 'groups' and reset and reset_page(cursor, reset) or '0'
  walk = cursor == '0' and 'closed' or walk
end
if walk == 'closed' and field == 'groups' then
  local page = scan('ZSCAN', closed, cursor, '100')
  for i = 1, #page[2], 2 do
    open_or_close(page[2][i])
  end
  walk, cursor = page[1] == '0' and 'done' or walk, page[1]
elseif walk == 'closed' then
  if field ~= 'queue' then
    count_permits(string.sub(field, 7))
    open_or_close(string.sub(field, 7))
  else
    gate_of('') -- bound the grants of a tighter limit from now on, not from the next read on
  end
  walk = 'done'
end
admit()
return { walk, cursor }
