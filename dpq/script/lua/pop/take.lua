-- take: remove the best tasks from ready, and decide about each task: lease it, put it back, or give it up.
-- It removes sixteen tasks at a time, a frame, which bounds the payloads in memory. If the heir of a group comes before
-- the last task of a frame, the heir joins the frame (step_up). If groups take turns, a frame is a single task, since
-- each turn counts.
-- Needs: now, order, layout, record
-- Gives: take(taken, most, max_bytes, most_passed, judge, crown): decides about a frame; true if pop has enough.
--        `judge` and `crown` are the functions of limits, or nil. The fields of `taken`: metas, the ids and records to
--        store; long, by id, the payloads that have a field of their own; bytes, the size of all payloads; rotten,
--        tasks for the dead letters; passed, how many tasks pop does not return; token, the newest token so far;
--        changes, the tables of changes to a record that a judge returned instead of true (change); popped, a member
--        and its score to decide about instead of the best tasks (wanted); charged, a group
--        that is to be charged (spend).
-- Returns nil if it is no record; else its counts after this delivery; where its rest and its payload begin; its cost;
-- until when it must have begun; its group. A delivery at or after the moment of a `rerun` is that run.
local function apart(raw)
  local at, rest, _, cost, expires, _, group, _, attempts, deliveries, deferrals, _, again = parts(raw)
  if at then
    local counted = attempts .. (deliveries == '0' and ' 1 ' or ' ' .. deliveries + 1 .. ' ') .. deferrals
    again = again ~= '0' and tonumber(again) > now and again or '0'
    return counted .. ' - ' .. again .. ' ', at, rest, cost, deliveries == '0' and expires or '0', group
  end
end

local function take(taken, most, max_bytes, most_passed, judge, crown)
  local metas, rotten = taken.metas, taken.rotten
  local in_turn = not taken.size and crown and most > 1 and (redis.call('HGET', conf, 'fairness') or 'none') ~= 'none'
  taken.size = taken.size or in_turn and 1 or 16
  local popped = taken.popped or redis.call('ZPOPMIN', ready, math.min(taken.size, most - #metas / 2))
  if #popped == 0 then
    return true
  end
  local ids, left, enough = {}, nil, false
  for i = 1, #popped, 2 do
    local member = popped[i]
    ids[#ids + 1] = id_of(member)
  end
  local raws = redis.call('HMGET', meta, unpack(ids))
  local frame = crown and popped[3] and { popped = popped, ids = ids, raws = raws, heirs = {}, rising = {}, heads = {},
    emptied = {} }
  for i, id in ipairs(ids) do
    local raw, member, score = raws[i], popped[2 * i - 1], popped[2 * i]
    if raw and not enough then
      local digits, group, rest = string.match(raw, FRESH)
      local counted, at, cost, expires, body, reason, may = '0 1 0 - 0 ', 1, '1', '0', nil, nil, true
      if not rest or digits < LEAST_DIGITS or rest - #group > MOST_BYTES then
        counted, at, rest, cost, expires, group = apart(raw)
        if counted and rest > #raw then
          body = redis.call('HGET', payload, id)
          reason = not body and 'payload missing'
        end
        rest = counted and rest + 1 -- where the payload begins
        reason = reason or expires and expires ~= '0' and tonumber(expires) <= now and 'expired'
      end
      local shared = crown and string.byte(member, residual_in(member) + 1) == 57 -- as shares makes places
      local size = body and #body or counted and #raw - rest + 1 or 0
      if taken.bytes + size > max_bytes and #metas > 0 then
        may = nil
      elseif not counted or reason then
        rotten[#rotten + 1] = { id, raw, reason }
        taken.passed = taken.passed + 1
        if crown and not counted then -- if this task was the head, its group gets the next
          group = string.match(raw, GROUP) or ''
          group = string.find(redis.call('HGET', groups, group) or '', ' ' .. member, 1, true) and group
        end
      else
        may = not judge or judge(tonumber(score), member, id, cost, group, taken.token + 1, raw)
        if may then
          local n = #metas
          taken.token = taken.token + 1
          metas[n + 1] = id
          metas[n + 2] = string.format('%d ', taken.token) .. counted .. (at == 1 and raw or string.sub(raw, at))
          if may ~= true then
            taken.changes = taken.changes or {}
            taken.changes[#taken.changes + 1] = { n + 2, string.format('%d', taken.token), may }
          end
          taken.long[id] = body
          taken.bytes = taken.bytes + size
          if shared then
            taken.charged = { group, may ~= true and may.cost or cost, not taken.popped }
          end
        elseif may == false then
          taken.passed = taken.passed + 1
        end
      end
      if may and crown and group and group ~= '' then
        crown(group, frame, i, shared)
      end
      enough = may == nil or frame and (#metas >= 2 * most or taken.passed >= most_passed)
      left = may == nil and { score, member } or left
    elseif raw then
      left = left or {}
      left[#left + 1], left[#left + 2] = score, member
    end
  end
  if frame and frame.heirs[1] then
    redis.call('ZREM', waiting, unpack(frame.heirs))
    redis.call('ZADD', ready, unpack(frame.rising))
    redis.call('HSET', groups, unpack(frame.heads))
  end
  if frame and frame.emptied[1] then
    redis.call('HDEL', groups, unpack(frame.emptied))
  end
  if left then
    redis.call('ZADD', ready, unpack(left))
  end
  return enough or taken.passed >= most_passed or taken.bytes > max_bytes
end
