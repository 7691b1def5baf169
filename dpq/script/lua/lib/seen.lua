-- seen: keep the keys of finished tasks taken for a time (unique_for). Such a key is a seen key. In `keys` it has
-- "id TAB until", and behind a second TAB the group of its task if there is one; `recent` has the same moment. The
-- moment of a key that is seen for ever is 4000000000000000 and the ms at which its task was acked. The cap is a
-- million seen keys, or `seen_max_keys` of the queue. Over the cap, the keys go first whose moment comes first. If a
-- seen key is pushed anew, its entry of `recent` stays, and has no meaning. docs/storage.md, "Keys of tasks".
-- Needs: now, layout, notes, moments
-- Gives: finish_keys(keyed), for a list of {key, id, record} of tasks that are gone: it frees each key, or keeps it
--        as a seen key;
--        see_key(key, id, ends, group), which keeps a key until a moment;
--        prune_seen(most), which frees seen keys whose moment has come, and those over the cap. It returns how many it
--        has looked at, `most` at the most.
local function see_key(key, id, ends, group)
  redis.call('HSET', keys, key, id .. '\t' .. ends .. (group ~= '' and '\t' .. group or ''))
  redis.pcall('ZADD', recent, ends, key) -- a key of another type: types reports it, and check this entry
end

local function prune_seen(most)
  local size = tonumber(redis.pcall('ZCARD', recent)) -- as in see_key
  if not size then
    return 0
  end
  local surplus = size - (tonumber(redis.call('HGET', conf, 'seen_max_keys') or '') or 1000000)
  local over = over_caps(recent, surplus, stamp, most)
  for _, key in ipairs(over) do
    if string.find(redis.call('HGET', keys, key) or '', '\t', 1, true) then
      redis.call('HDEL', keys, key)
    end
  end
  if #over > 0 then
    redis.call('ZREM', recent, unpack(over))
  end
  return #over
end

local function finish_keys(keyed)
  local kept, free = 0, {}
  for _, one in ipairs(keyed) do
    local key, id, raw = unpack(one)
    local ms = string.match(raw, UNIQUE_FOR)
    if ms and #ms <= 16 then
      kept = kept + 1
      see_key(key, id, string.format('%.0f', now + ms), string.match(raw, GROUP) or '')
    else
      free[#free + 1] = key
    end
  end
  if free[1] then
    redis.call('HDEL', keys, unpack(free))
  end
  if kept > 0 then
    prune_seen(2 * kept)
  end
end
