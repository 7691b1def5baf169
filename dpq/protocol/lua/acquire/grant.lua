-- grant: charge the units of a permit, and let it count as a lease where leases are counted.
-- Keys: tracked
-- Needs: now, charge, mark, pool, uncounted
-- Gives: grant(scopes, units, id, moment, ends, newest, tells): the entry of its lease, or "", and "1" if it is one
--        only until its answer is observed, else "": its host may not know of it yet. `newest` is the last token of a
--        task; `tells` if it may tell what it has spent, at its end. The third value names costs that are not
--        counted as they are (uncounted).
local function grant(scopes, units, id, moment, ends, newest, tells)
  -- Its token comes after those of all tasks so far.
  local token = math.max(math.floor(moment * 1000), (tonumber(newest or '') or 0) + 1)
  local leased, stays, entry = '', tells, string.format('~%013.0f~', ends) .. id
  for _, gate in ipairs(scopes) do
    charge(gate, units, entry, token, moment)
    stays = stays or gate.busy or gate.rules.concurrency > 0
    local counts = tells or gate.busy or gate.rules.concurrency > 0 or gate.observed
    local note = gate.booked or { 0, 0, 0, 0, 0 }
    if instant < note[3] + 50 then -- it comes before the tasks that have their turn
      note[3] = 0
    end
    if counts then
      leased = entry
      redis.call('ZADD', tracked, '0', gate.scope .. '\t' .. entry)
      mark() -- the gate knows of the lease, also without a limit
    end
    if counts or moment > instant and gate[1] then
      note[1], note[5] = math.max(note[1], moment), math.max(note[5], counts and ends or 0)
      gate.booked, gate.changed = note, true
    end
  end
  if scopes[3] then
    granted_to(scopes[3])
  end
  local texts = tells and uncounted(scopes[2] and scopes[2].scope or '', units, scopes[1].rules,
    scopes[2] and scopes[2].rules) or {}
  return leased, leased ~= '' and not stays and '1' or '', table.concat(texts, '\n')
end
