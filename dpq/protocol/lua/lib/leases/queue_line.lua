-- queue_line: let the queues of a family take turns at a limit that they have in common. A queue that met the limit
-- stands in `tracked` as "scope FF since SP conf SP called": since when it waits, us, and since when a unit is left
-- to it, ms. It has TURN_MS to take the unit, else it leaves the line. A turn is one pop, whatever that takes.
-- Keys: conf tracked
-- Needs: now, family
-- Gives: queue_line(), which makes functions when it is first called:
--        ahead(scope), until when free units are left to a queue that waits for longer than this one, ms, or nil;
--        is_before(scope, us), true if a queue waits since an earlier moment;
--        stand(scope), for a queue that was refused; it keeps its place;
--        leave(scope), for a queue that was granted units.
local line_of_queues

local function queue_line()
  if line_of_queues then
    return line_of_queues
  end
  line_of_queues = {}
  local TURN_MS, lines = 50, {}

  local function line_at(scope)
    if not lines[scope] then
      local found = {}
      local range = redis.call('ZRANGEBYLEX', tracked, '[' .. scope .. '\12', '(' .. scope .. '\13', 'LIMIT', '0', '64')
      for i, entry in ipairs(range) do
        local since, who, called = string.match(entry, '^(%d+) (.*) (%d*)$', #scope + 2)
        found[i] = { entry = entry, since = since, called = tonumber(called or ''), who = who }
      end
      lines[scope] = found
    end
    return lines[scope]
  end

  local function store(scope, each)
    if each.entry then
      redis.call('ZREM', tracked, each.entry)
    end
    local called = each.called and string.format('%d', each.called) or ''
    each.entry = string.format('%s\12%s %s %s', scope, each.since, each.who, called)
    redis.call('ZADD', tracked, '0', each.entry)
  end

  local function own_in(scope)
    for i, each in ipairs(line_at(scope)) do
      if each.who == conf then
        return i, each
      end
    end
  end

  function line_of_queues.ahead(scope)
    local line = line_at(scope)
    while line[1] and line[1].who ~= conf do
      local first = line[1]
      if not first.called and first.since then
        first.called = now
        store(scope, first)
        family().tell_one(first.who, scope)
      end
      if first.called and first.called + TURN_MS > instant and first.called <= instant then
        return first.called + TURN_MS
      end
      redis.call('ZREM', tracked, first.entry)
      table.remove(line, 1)
    end
  end

  function line_of_queues.is_before(scope, us)
    local first = line_at(scope)[1]
    return first and (tonumber(first.since or '') or 0) < us
  end

  function line_of_queues.leave(scope)
    local i, own = own_in(scope)
    if own then
      redis.call('ZREM', tracked, own.entry)
      table.remove(lines[scope], i)
    end
  end

  function line_of_queues.stand(scope)
    local _, own = own_in(scope)
    if not own then
      own = { since = string.format('%016.0f', math.floor(instant * 1000)), who = conf }
      table.insert(lines[scope], own)
    elseif not own.called then
      return
    end
    own.called = nil
    store(scope, own)
  end

  return line_of_queues
end
