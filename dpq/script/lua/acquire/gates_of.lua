-- gates_of: find the gates whose units acquire takes, and how many; and charge them.
-- Needs: now, gate, opens, cost, pool, estimate, charge
-- Gives: gates_of(group, member, cost, rank, held, pin): the gates of the queue, of the group, and of a member of its
--        pool; the units; the estimated units, or nil; true if the permit may report the units that it has spent; and
--        true if the gate is not that of the named member. The gate is that of the pinned member; or of the named
--        member, unless it was closed since; else of the member that is free first, chosen as in pop. If the pool does
--        not have the pinned member: nil and the members;
--        grant(scopes, units, id, moment, ends, newest, tells), which charges them, and lets the permit count as a
--        lease where leases are counted: the entry of its lease, or ""; and "1" if it is a lease only until its answer
--        is observed, since its host may not know of it before, else "". `newest` is the last token of a task; `tells`
--        is true if the permit may report the units that it has spent.
local function gates_of(group, member, cost, rank, held, pin)
  local queue, limited = gate_of(''), group ~= '' and gate_of(group) or nil
  local gates_taken, units, added = { queue, limited }, weigh(cost), nil
  local named_units = queue.rules.units or limited and limited.rules.units
  if named_units then
    units, added = estimated(units, limited or queue, limited and queue)
  end
  local best, named
  if limited and limited.rules.members and pin ~= '' then
    if not limited.rules.each[pin] then
      return nil, '\t' .. table.concat(limited.rules.members, '\t')
    end
    best = gate_of(group .. '\t' .. pin)
    named, gates_taken[3] = member == pin and best, best
  elseif limited and limited.rules.members then
    local soonest, _
    _, best = pool_at(limited, units, rank)
    for _, mate in ipairs(best and {} or limited.mates) do
      local at = opens_at(mate, units, rank) + (full(mate) and 1e9 or 0)
      if not soonest or at < soonest then
        best, soonest = mate, at
      end
    end
    named = member ~= '' and gate_of(group .. '\t' .. member)
    if named and not named.gone and named.opens <= instant and (named.probe == '-' or named.probe == held) then
      best = named
    end
    gates_taken[3] = best
  end
  return gates_taken, units, added, named_units or cost ~= '1', member .. pin ~= '' and best ~= named
end

local function grant(scopes, units, id, moment, ends, newest, tells)
  -- The permit's token comes after the tokens of all tasks so far.
  local token = math.max(math.floor(moment * 1000), (tonumber(newest or '') or 0) + 1)
  local leased, stays, entry = '', tells, string.format('~%013.0f~', ends) .. id
  for _, gate in ipairs(scopes) do
    charge(gate, units, entry, token, moment)
    stays = stays or gate.busy or gate.rules.concurrency > 0
    local counts = tells or gate.busy or gate.rules.concurrency > 0 or gate.told
    local note = gate.booked or { 0, 0, 0, 0, 0 }
    if instant < note[3] + 50 then -- the permit comes before tasks in their turn
      note[3] = 0
    end
    if counts then
      leased = entry
      redis.call('ZADD', tracked, '0', gate.scope .. '\t' .. entry)
      redis.call('HSET', conf, 'gated', '1') -- the gate knows of the lease, even without a limit
    end
    if counts or moment > instant and gate[1] then
      note[1], note[5] = math.max(note[1], moment), math.max(note[5], counts and ends or 0)
      gate.booked, gate.changed = note, true
    end
  end
  if scopes[3] then
    granted_to(scopes[3])
  end
  return leased, leased ~= '' and not stays and '1' or ''
end
