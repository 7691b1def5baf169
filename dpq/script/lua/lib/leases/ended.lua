-- ended: note that leases are over. It notes in `stirred` the groups that were full, and admit (place) opens them.
-- Needs: now, rules, gate, open_or_close, layout, notes
-- Gives: ended(leases, lapsed), for a list of id, group, member, ... The member is that of a pool that the delivery ran
--        as, or false. `lapsed` is true if the leases ran out;
--        add_ended(leases, id, raw), which adds a lease to such a list, by the record of its task.
local function add_ended(leases, id, raw)
  local n, member = #leases, string.find(raw, RUNS_AS, 1, true) and string.match(raw, RAN_AS)
  leases[n + 1], leases[n + 2], leases[n + 3] = id, string.match(raw, GROUP), member or false
end

-- Ends the probe after a 429. The probe has found the limit open, unless it came to nothing because its lease ran out.
local function end_probe(gate, over, lapsed)
  gate.out = false
  if over[gate.probe] then
    local again = lapsed or gate.why == 'l' and gate.opens > 0 -- another delivery has met a 429 meanwhile
    gate.probe, gate.changed = again and 'p' or '-', true
    if again and gate.why ~= 'l' then -- the end of a 429's closing stays: the windows owe from there
      gate.opens = math.max(gate.opens, now) -- prune counts from this time
    end
  end
end

local function ended(leases, lapsed)
  local of_queue, others, scopes, over, n = { '\t' }, {}, {}, {}, 0
  local function count(scope, id)
    n = n + 1
    others[n], scopes[n] = scope .. '\t' .. id, scope
  end
  for i = 1, #leases, 3 do
    local id, group, member = leases[i], leases[i + 1], leases[i + 2]
    of_queue[#of_queue + 1], over[id] = '\t' .. id, true
    if group ~= '' then
      count(group, id)
    end
    if member then
      count(group .. '\t' .. member, id)
    end
  end
  if leases[1] and redis.call('ZREM', tracked, unpack(of_queue)) > 0 then
    end_probe(gate_of(''), over, lapsed)
    stirred[''] = true
  end
  if n == 0 or redis.call('ZREM', tracked, unpack(others)) == 0 then
    return
  end
  -- Most gates hold only grants, and their groups are open. Then there is nothing to do.
  local texts, some_closed = redis.call('HMGET', gates, unpack(scopes)), redis.call('EXISTS', closed) == 1
  for i, scope in ipairs(scopes) do
    local text = texts[i]
    local more = seen.gates[scope] or text and (string.byte(text) ~= 45 or string.find(text, ' B:', 1, true))
    if more then
      end_probe(gate_of(scope), over, lapsed)
    end
    if more or some_closed then
      local group = string.match(scope, '^[^\t]*')
      stirred[group] = more or stirred[group] or redis.call('ZSCORE', closed, group) and true
    end
  end
end
