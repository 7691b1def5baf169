-- rate_limited: give a task back after a 429, uncounted, with its priority and order. Close its group, or the whole
-- queue, for all consumers. The first task afterwards is a probe.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf stats wake tick limits gates tracked
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  id
-- ARGV[3]  token      of the delivery that holds the lease
-- ARGV[4]  ms         from now until it may be tried again
-- ARGV[5]  scope      group (a task without one closes the queue), queue or task
-- ARGV[6]  told       what it has spent, as in spent; or left out
--
-- Returns 1; -1 if the token is not the live one or the delivery has ended (nothing changed). A longer closing is never
-- shortened. After it, the windows grant one unit and then go at their pace. A learned rate goes down, once for each
-- delivery and each closing. The windows of a fixed limit get more slack, unless the task was the probe, or was popped
-- before they last got some. The request stays spent; units of which it tells nothing count as not spent.
-- Lost reply: safe to send again; the time then counts from the second call, the deferral once.
local time, id, token, ms, scope = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local told = ARGV[6]

-- Needs: now, record, fence, pace, gate, open_or_close, place, back
-- No more was granted than the limit says, so requests came closer together on their way to the host. The windows
-- get room for that: at first a twentieth of the shortest, 50 ms at most; then an eighth more, or twice as much if
-- the next 429 comes within five windows; never more than a quarter, for the limit itself may be wrong.
local function widen(gate, opens)
  for i, rule in ipairs(gate.rules) do
    if not rule.slack then
      local soon = instant - gate.beside < 5 * rule.per
      local slack = math.max(gate.slack * (soon and 2 or 1.125), math.min(rule.per / 20, 50))
      gate.slack = math.ceil(math.min(slack, rule.per / 4, MOST_SLACK_MS))
      gate.learned, gate.beside = gate.slack, opens
      break
    end
  end
  for i, rule in ipairs(gate.rules) do
    pace(gate[i], rule, rule.rate, gate.slack)
  end
end
local task, refused = fence(id, token, '')
if not task then
  return refused
end
if told or string.find(task.cost, ',', 1, true) then
  -- Needs: true_up
  local others = string.gsub(string.sub(string.match(task.cost, ',.*$') or '', 2), '[=~]%d+', '=0')
  local is_told = true_up(task, told or '')
  told = true_up(task, others, true) or is_told
end
local gate = scope ~= 'task' and gate_of(scope == 'group' and task.group or '')
local was_probe = gate and gate.probe == id
leave(id, task, true) -- a probe that meets a 429 opens nothing
local first = task.delivery == '-' or task.delivery == 'x' -- deferral of this delivery
if first then
  task.delivery = task.delivery == '-' and 'd' or 'X'
  task.deferrals = task.deferrals + 1
  redis.pcall('HINCRBY', stats, 'deferred', 1)
end
if first or told then
  redis.call('HSET', meta, id, write(task))
end
if gate then
  local rules, opens = gate.rules, math.max(gate.opens, now + ms)
  if instant < gate.since then -- the end of the closing that has halved it
    gate.since = opens
  elseif rules.ceiling > 0 and gate[1] and first then
    local clean = gate.beside <= gate.rate and gate.beside or 0 -- the rate that the last clean window had
    gate.learned, gate.beside = gate.rate, 0
    gate.rate = math.max(rules.floor, clean > 0 and clean * 0.9375 or gate.rate / 2)
    pace(gate[1], rules[1], gate.rate)
    gate.since, gate.used = opens, 0
  elseif rules.ceiling == 0 and first and not was_probe and token / 1000 > gate.beside then
    widen(gate, opens)
  end
  gate.opens, gate.why, gate.changed = opens, 'l', true
  gate.probe = gate.probe == '-' and 'p' or gate.probe -- a running probe stays the only one
  for i, window in ipairs(rules) do
    gate[i].owed = math.max(gate[i].paid, owed_after(opens, window, gate[i]))
  end
  ms = 0
  if gate.scope == '' then
    stirred[''] = true
    redis.pcall('HSET', stats, 'kept.shut_until', string.format('%.17g', opens))
  else
    -- Needs: mark
    mark()
    open_or_close(gate.scope)
  end
end
back(id, task, ms)
admit()
return 1
