-- tally: count what a queue holds, and read its totals.
-- Needs: now, moments, times, record, order
-- Gives: tally(), which returns two tables. The first is {name = count} of all counts that are not 0, with the names of
--        totals: the tasks in each state (delayed tasks that are due, and tasks whose lease is over, are ready),
--        the totals, and oldest_ready if a task is ready. The second lists field, count, ... of each bucket in use
--        (times): "w" of waits, "r" of all runs;
--        oldest_ready(), for how many ms the oldest ready task has been due, or -1 if none is ready. Of more than 200
--        ready tasks it looks at the first one of some priorities: the 100 best, and the worst;
--        TOTALS, the names of numbers that only grow; GAUGES, the names of what there is now: {name, short name, ...}.
--        Slots of the history have the short names (remember). A short name stays with its total for ever, since slots
--        live for 14 days. The names "w", "r" and a number are taken (times). To add a total: docs/life_of_a_task.md.
local TOTALS = {
  'pushed', 'pu', 'popped', 'po', 'acked', 'ak', 'failed', 'fa', 'deferred', 'df', 'expired_leases', 'xl',
  'buried', 'bu', 'replayed', 're', 'dropped', 'dr', 'rate_limited', 'rl',
  'buried_attempts_spent', 'ba', 'buried_lease_expired', 'bl', 'buried_lapses_spent', 'bs', 'buried_expired', 'bx',
  'buried_payload_missing', 'bm',
  'rate_limited_403', 'm403', 'rate_limited_503', 'm503', 'rate_limited_529', 'm529', 'rate_limited_other', 'm0',
}

local GAUGES = {
  'ready', 'rd', 'delayed', 'de', 'invisible', 'iv', 'waiting', 'wa', 'dead', 'dd', 'oldest_ready', 'or',
  'closed_groups', 'cg', 'workers', 'wk',
}

local function oldest_ready()
  local ids = {}
  local function look(members)
    for i = 1, #members do
      ids[#ids + 1] = split(ready, members[i])
    end
  end
  if redis.call('ZCARD', ready) <= 200 then
    look(redis.call('ZRANGE', ready, 0, -1))
  else
    local lifo = redis.call('HGET', conf, 'order') == 'lifo'
    local function last_of(score)
      return redis.call('ZRANGE', ready, score, score, 'BYSCORE', 'REV', 'LIMIT', 0, 1)
    end
    local worst = redis.call('ZRANGE', ready, -1, -1, 'WITHSCORES')[2]
    look(lifo and last_of(worst) or redis.call('ZRANGE', ready, worst, worst, 'BYSCORE', 'LIMIT', 0, 1))
    local from = '-inf'
    for _ = 1, 100 do
      local member, score = unpack(redis.call('ZRANGE', ready, from, '+inf', 'BYSCORE', 'LIMIT', 0, 1,
        'WITHSCORES'))
      if not member then
        break
      end
      look(lifo and last_of(score) or { member })
      from = '(' .. score
    end
  end
  local since = -1
  for _, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
    local task = raw and read(raw)
    since = task and math.max(since, now - task.enqueued - task.wait, 0) or since -- by id it runs before it is due
  end
  return since
end

local function tally()
  local counts, buckets = {}, {}
  for name, set in pairs({ ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead }) do
    counts[name] = redis.call('ZCARD', set)
  end
  -- No call may have moved what is due, as while all handlers are busy, or the queue is paused.
  local oldest = oldest_ready()
  for name, set in pairs({ delayed = delayed, invisible = invisible }) do
    local due = past(set)
    counts[name], counts.ready = counts[name] - due, counts.ready + due
    local first = due > 0 and redis.call('ZRANGE', set, '0', '0', 'WITHSCORES')[2]
    oldest = first and math.max(oldest, now - first) or oldest
  end
  local waits, first = counts_of('w')
  local runs, done = counts_of('r')
  local more, names = { popped = first, acked = done }, {}
  for i = 1, #TOTALS, 2 do
    names[#names + 1] = TOTALS[i]
  end
  for i, text in ipairs(redis.call('HMGET', stats, unpack(names))) do
    local count = #(text or '') <= 15 and string.match(text or '', '^-?%d+$') -- any other text is damage
    counts[names[i]] = math.max((count or 0) + (more[names[i]] or 0), 0)
  end
  local skipped = tonumber(redis.call('HGET', stats, 'skipped') or '') -- numbers of the sequence that an import skipped
  counts.pushed = math.max(counts.pushed - (skipped or 0), 0)
  for name, count in pairs(counts) do
    counts[name] = count ~= 0 and count or nil
  end
  counts.oldest_ready = oldest >= 0 and oldest or nil
  for bucket, count in pairs((counts_of('f'))) do
    runs[bucket] = (runs[bucket] or 0) + count
  end
  for letter, found in pairs({ w = waits, r = runs }) do
    for bucket, count in pairs(found) do
      buckets[#buckets + 1], buckets[#buckets + 2] = letter .. bucket, count
    end
  end
  return counts, buckets
end
