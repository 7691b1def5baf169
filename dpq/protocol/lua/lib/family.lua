-- family: tell the other queues of a family what a script has freed of the limits that they have in common. `kin` lists
-- the keys of all queues of the family, four for each (MEMBER_PARTS of protocol/keys.py); without a family it is nil.
-- Keys: conf kin
-- Needs: now
-- Gives: family(), which adds functions to `kin` when it is first called, and returns it:
--        note(group, at), when a group may open, ms;
--        tell(freed): the queues in which a noted group is closed for longer look again; all, if `freed`;
--        tell_one(its_conf, group), the same for one queue, whose turn it is in that group; "" for the family's limit;
--        watch(event), the earlier of that moment and of those at which other queues' upkeep is overdue; and the
--          `conf` of those whose upkeep is overdue now.
local function family()
  if kin.tell then
    return kin
  end
  local noted, GRACE_MS = {}, 1000

  local function send(i, freed, moments)
    for group, at in pairs(moments) do
      if redis.call('ZADD', kin[i + 1], 'XX', 'LT', 'CH', string.format('%.17g', at), group) == 1 then
        redis.call('HSET', kin[i], 'next_event', '0')
        freed = true
      end
    end
    if freed and redis.call('EXISTS', kin[i]) == 1 then -- else it is dropped, and the client does not know that yet
      redis.call('HDEL', kin[i], 'shut_until', 'watched')
      redis.call('ZADD', kin[i + 2], '0', 'w')
      redis.call('ZADD', kin[i + 3], '0', 'w')
    end
  end

  function kin.note(group, at)
    noted[group] = at
  end

  function kin.tell(freed)
    for i = 1, next(noted) and #kin or freed and #kin or 0, 4 do
      if kin[i] ~= conf then
        send(i, freed, noted)
      end
    end
    noted = {}
  end

  function kin.tell_one(its_conf, group)
    for i = 1, #kin, 4 do
      if kin[i] == its_conf then
        send(i, group == '', group ~= '' and { [group] = instant } or {})
      end
    end
  end

  function kin.watch(event)
    local overdue = {}
    for i = 1, #kin, 4 do
      local due = kin[i] ~= conf and tonumber(redis.call('HGET', kin[i], 'next_event') or '')
      if due and due + GRACE_MS <= instant then
        overdue[#overdue + 1] = kin[i]
      elseif due then
        event = math.min(event or math.huge, due + GRACE_MS)
      end
    end
    return event, overdue
  end

  return kin
end
