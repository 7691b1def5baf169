-- pop: do the upkeep that is due, then lease the best ready tasks that may run now.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked events batches followers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  most       number: tasks at most, from 1 to 1000
-- ARGV[3]  visibility number: the lease, ms
-- ARGV[4]  max_bytes  number: payload bytes at most (the first task comes whatever its size)
-- ARGV[5]  batch      number: steps of upkeep at most
-- ARGV[6]  waiter     "": this consumer does not wait; "-": before it waits; "0": after it has waited; or the
--                     moment, ms with three digits, that it watches because a reply named it
-- ARGV[7]  wanted     the id of the only task to lease, whatever stands before it, or ""; or left out
-- ARGV[8]  forced     "1" if that task may be delayed, else ""; or left out
-- ARGV[9]  ahead      number: ms: limits may let a task begin that much later, and the caller holds it until then; or
--                     left out
-- ARGV[10] beyond     number: tasks at most beyond `most` that begin later; or left out
--
-- Returns one of:
-- * {lease end, id, record and payload, id, ...}: the tasks. A line feed stands between record and payload. If `ahead`
--   was given, a list follows: {us, now, rest, wait, ...}. The first three are as below, for a caller that has room for
--   more tasks; `rest` is 0 if the caller is to ask again. `wait` is how long each task has to wait, us.
-- * {0, us, now}: no task may run. `us`: microseconds until that may change; -1 if no task becomes ready by time alone,
--   or another waiter watches that moment; less than -1 for its second watcher, who asks after that many
--   microseconds, without the sign. `now`: the time in microseconds. If the queue exists, a fourth number follows: ms
--   after which the waiter asks again in any case (rest). For a wanted task `us` is -1.
-- * {-5}: the upkeep is not done yet: call again at once.
-- Lost reply: the tasks stay leased until their leases run out, which counts as an attempt. Their units are spent.

-- Needs: now, refusal, early
beyond, wanted = beyond or 0, wanted ~= '' and wanted or nil
local room, spare = most, beyond
early.ms = ahead or 0
local settings = redis.call('HMGET', conf, 'paused_until', 'next_event', 'gated', 'queue_rules', 'queue_gate',
  'shut_until', 'token', 'format', 'room_wanted')
local paused, soonest, moved = settings[1], tonumber(settings[2] or ''), 0
local refused, format = refusal(settings[8])
if refused then
  return refused
end
if paused and (paused == 'inf' or (tonumber(paused) or 0) > now) then
  -- Needs: go_on, rest
  go_on()
  return rest(waiter, format, tonumber(paused ~= 'inf' and paused or ''))
end
if soonest and not (soonest > instant) then -- NaN comes here, too: the moment is unknown
  -- Needs: upkeep
  go_on()
  moved, soonest = upkeep(batch, true), 0
  if moved >= batch then
    return { -5 }
  end
end

local there = redis.call('EXISTS', groups, groups, groups, limits, gates) -- in one call, also when `gated` is lost
-- The group of the wanted task may have no head, or a group may open by then.
local grouped = there > 2 or wanted ~= nil or ahead and not (soonest and soonest > instant + ahead)
local judge, crown, after_all, at_last = nil, nil, nil, nil
if settings[4] or settings[5] or grouped and (settings[3] or there % 3 > 0) then
  -- Needs: rules, judge
  seen.texts = moved == 0 and { settings[4], settings[5] } or nil
  local judge_queue, settle, finish
  judge_queue, at_last, settle, finish = queue_judge(most)
  judge, after_all = judge_queue, finish
  if grouped then
    -- Needs: judge_groups
    judge, crown, after_all = group_judge(judge_queue, settle, wanted)
  end
elseif grouped then
  -- Needs: step_up
  crown = step_up
end
-- Tokens are microseconds, but each is larger than the last token, whatever the clock says. A failover, or a restart
-- without the newest data, may lose the last token. Tokens still grow then, since time goes on.
local token, last = math.floor(instant * 1000), tonumber(settings[7] or '')
token = last and last > token and last < 9e15 and last or token -- a larger number is not exact: damage
-- Needs: take
local metas, rotten, reply, least = {}, {}, nil, nil
local taken = { metas = metas, long = {}, rotten = rotten, bytes = 0, passed = 0, token = token }
if wanted then
  -- Needs: wanted
  take_wanted(taken, wanted, forced, judge, crown)
end
repeat
  local enough = wanted or take(taken, most, max_bytes, batch, judge, crown)
  if taken.charged then
    -- Needs: spend
    spend(taken)
  end
  if beyond > 0 and judge and #metas >= 2 * most then
    most, beyond, early.only, enough = most + beyond, 0, true, false
  elseif ahead and grouped and judge and enough and not early.groups and #metas < 2 * most and taken.passed < batch then
    after_all()
    early.groups = true
    enough = open_soon(most - #metas / 2, at_last) == 0
  end
until enough or #metas >= 2 * most

if after_all then
  after_all()
end
if taken.changes then
  -- Needs: change
  change(taken)
end
room = judge and room + spare or room
local looks = ahead and waiter ~= '' and metas[1] and #metas < 2 * room and taken.passed == 0
  and (at_last and at_last() or redis.call('EXISTS', ready) == 0) -- the caller may wait, though it gets tasks
if #metas > 0 then
  -- Needs: lease
  reply, least = lease(taken, visibility, settings[6])
  if not soonest or soonest <= instant or now + least < soonest or least < 10000 then
    -- Needs: notice
    notice(least)
  end
  if (tonumber(waiter) or moved > 0) and not looks then
    pass_on(tonumber(waiter), at_last)
  end
end
if #rotten > 0 then
  discard(rotten)
end
if settings[9] then
  make_room(metas, rotten)
end
local told = wanted and { 0, -1, math.floor(instant * 1000) } or { -5 }
if looks or not (reply or wanted or taken.passed > 0) then
  -- Needs: moments
  local event = next_event()
  if event and event <= instant and (not soonest or soonest > instant) then -- `next_event` was lost
    redis.call('HSET', conf, 'next_event', '0')
  else
    told = rest(waiter, format, event, at_last)
  end
end
-- Needs: soon
return reply and ahead and listed(reply, told, metas) or reply or told
