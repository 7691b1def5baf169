-- family: keep the order in which the queues of a family take turns at their common limits, and tell the other queues
-- what a script has freed. A queue that met a limit stands in `tracked` as "scope FF since SP called SP conf": since
-- when it waits, us, and since when a free unit is left to it, ms. It has TURN_MS to take the unit. `kin` is the number
-- of the last key before the keys of the family's queues, four for each (MEMBER_PARTS of protocol/keys.py).
-- Keys: conf tracked
-- Needs: now
-- Gives: family(), which makes functions when it is first called:
--        knows_all(confs), true if the client knows all queues of the family;
--        tell_kin(freed, moments, only): the queues look again, if `freed`, or if one of the groups may open sooner than
--          they know: {group = ms}. `only` is the `conf` of the one queue to tell;
--        ahead(scope, came, at): until when the units that are free `at` are left to a queue that waits for longer, ms,
--          or nil. `came` is since when the caller waits, us; without it, this queue;
--        stand_in(scope), for a queue that was refused; leave_line(scope), for a queue that was granted units;
--        watch_kin(event), the earlier of that moment and of those at which other queues' upkeep is overdue; and the
--          `conf` of those whose upkeep is overdue now.
local being

local function family()
  if being then
    return being
  end
  being = {}
  local TURN_MS, GRACE_MS, lines = 50, 1000, {}

  function being.knows_all(confs)
    local known = {}
    for i = kin and kin + 1 or #KEYS + 1, #KEYS, 4 do
      known[#known + 1] = KEYS[i]
    end
    return table.concat(known, '\n') == confs
  end

  function being.tell_kin(freed, moments, only)
    for i = kin + 1, #KEYS, 4 do
      local its_conf, stirs = KEYS[i], freed
      if its_conf ~= conf and (not only or its_conf == only) then
        for group, at in pairs(moments or {}) do
          if redis.call('ZADD', KEYS[i + 1], 'XX', 'LT', 'CH', string.format('%.17g', at), group) == 1 then
            redis.call('HSET', its_conf, 'next_event', '0')
            stirs = true
          end
        end
        if stirs then
          redis.call('HDEL', its_conf, 'shut_until', 'watched')
          redis.call('ZADD', KEYS[i + 2], '0', 'w')
          redis.call('ZADD', KEYS[i + 3], '0', 'w')
        end
      end
    end
  end

  local function line_at(scope)
    if not lines[scope] then
      local found = {}
      local range = redis.call('ZRANGEBYLEX', tracked, '[' .. scope .. '\12', '(' .. scope .. '\13', 'LIMIT', '0', '64')
      for i, entry in ipairs(range) do
        local since, called, who = string.match(entry, '^(%d+) (%d*) (.*)$', #scope + 2)
        found[i] = { entry = entry, since = since or '', called = tonumber(called or ''), who = who }
      end
      lines[scope] = found
    end
    return lines[scope]
  end

  function being.ahead(scope, came, at)
    local line = line_at(scope)
    while line[1] and line[1].who ~= conf and not (came and tonumber(line[1].since) > came) or came and line[1]
      and line[1].who == conf and tonumber(line[1].since) < came do
      local first = line[1]
      if at and at > instant then -- no unit is free yet
        return at + TURN_MS
      elseif not first.called then
        first.called = now
        redis.call('ZREM', tracked, first.entry)
        first.entry = string.format('%s\12%s %d %s', scope, first.since, now, first.who)
        redis.call('ZADD', tracked, '0', first.entry)
        if first.who == conf then
          redis.call('ZADD', wake, '0', 'w')
        end
        being.tell_kin(scope == '', scope ~= '' and { [scope] = instant }, first.who)
      end
      if first.called + TURN_MS > instant then
        return first.called + TURN_MS
      end
      redis.call('ZREM', tracked, first.entry)
      table.remove(line, 1)
    end
  end

  local function own_in(scope)
    for i, each in ipairs(line_at(scope)) do
      if each.who == conf then
        return i, each
      end
    end
  end

  function being.leave_line(scope)
    local i, own = own_in(scope)
    if own then
      redis.call('ZREM', tracked, own.entry)
      table.remove(lines[scope], i)
    end
  end

  function being.stand_in(scope)
    local i, own = own_in(scope)
    if own and not own.called then
      return
    end
    local since = own and own.since or string.format('%016.0f', math.floor(instant * 1000))
    being.leave_line(scope)
    local entry = string.format('%s\12%s  %s', scope, since, conf)
    redis.call('ZADD', tracked, '0', entry)
    table.insert(lines[scope], i or #lines[scope] + 1, { entry = entry, since = since, who = conf })
  end

  function being.watch_kin(event)
    local overdue = {}
    for i = kin + 1, #KEYS, 4 do
      local due = KEYS[i] ~= conf and tonumber(redis.call('HGET', KEYS[i], 'next_event') or '')
      if due and due + GRACE_MS <= instant then
        overdue[#overdue + 1] = KEYS[i]
      elseif due then
        event = math.min(event or math.huge, due + GRACE_MS)
      end
    end
    return event, overdue
  end

  return being
end
