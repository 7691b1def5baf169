-- grant: charge the units of a permit, and let it count as a lease where leases are counted.
-- Needs: now, charge, mark, pool
-- Gives: grant(scopes, units, id, moment, ends, newest, tells): two texts. The first is the entry of the permit's
--        lease, or "". The second is "1" if the permit is a lease only until its answer is observed, since its host may
--        not know of it before; else "". `newest` is the last token of a task; `tells` is true if the permit may report
--        the units that it has spent.
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
      mark() -- the gate knows of the lease, even without a limit
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
