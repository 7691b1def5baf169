-- gates_of: find the gates whose units acquire takes, and how many.
-- Needs: now, gate, opens, cost, pool, estimate
-- Gives: gates_of(group, member, cost, rank, held, pin): the gates of the queue, of the group, and of a member of its
--        pool; the units; the estimated units, or nil; true if the permit may report the units that it has spent; and
--        true if the gate is not that of the named member. The gate is that of the pinned member; or of the named
--        member, unless it was closed since; else of the member that is free first, chosen as in pop. If the pool does
--        not have the pinned member: nil and the members.
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
