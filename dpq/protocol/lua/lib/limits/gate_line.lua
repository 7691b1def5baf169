-- gate_line: write what a scope allows as text, for a client that computes by itself when tasks may run:
-- dpq/model/gates.py reads it, with dpq/model/windows.py.
-- Keys: invisible tracked kin
-- Needs: now, gate, pace, budgets, pool, estimate, booked
-- Gives: gate_line(scope), four parts with a TAB between them.
--        The state is `opens why probe rate since used learned beside climb out turn`. `probe` is "-", "p", or `id@ms`:
--        the running probe, and when its lease ends. `out` is the number of leases that count towards the concurrency;
--        0 without a concurrency.
--        The second part says until when each window is paid; a moving window has its slots behind that.
--        The third part says what is counted. `q:count:reset:next` is a quota. `o:` stands before what is left of a
--        budget. `e:unit:units` is an estimate. `p:held` is a permit with a lease, for the first 100.
--        The fourth part has the rules: "" without a limit, "?" if they cannot be read.
--        For a pool, a line for each member follows. It has no rules, but the last grant of the member behind a TAB.
local function line_of(gate)
  local probe, out, paid, counted, scope = gate.probe, 0, {}, {}, gate.scope
  if probe ~= '-' and probe ~= 'p' then
    local lease = redis.call('ZSCORE', invisible, probe)
      or kin and redis.call('ZSCORE', tracked, scope .. '\t' .. probe) and stamp -- it runs in another queue
      or is_permit(probe) and permit_out(probe) and string.match(probe, '^~0*(%d+)')
    probe = lease and probe .. '@' .. lease or 'p'
  end
  if gate.rules.concurrency > 0 then
    out = running(scope) + (scope == '' and not kin and redis.call('ZCARD', invisible)
      or redis.call('ZLEXCOUNT', tracked, (scope == '' and '(' or '[') .. scope .. '\t', '(' .. scope .. '\t~'))
    local from = '[' .. scope .. string.format('\t~%013.0f', now + 1)
    local to = '(' .. scope .. '\t\127'
    for i, entry in ipairs(redis.call('ZRANGE', tracked, from, to, 'BYLEX', 'LIMIT', '0', '100')) do
      counted[i] = 'p:' .. string.sub(entry, #scope + 2)
    end
  end
  for i, window in ipairs(gate) do
    paid[i] = string.format('%.17g', window.paid)
    if gate.rules[i].moving then
      paid[i] = paid[i] .. window.more .. window.body
    end
  end
  for i, rule in ipairs(gate.rules.quotas or {}) do
    local quota = gate.quotas[i]
    counted[#counted + 1] = string.format('q:%.0f:%.0f:%.0f', quota.count, quota.reset > 0 and quota.reset
      or gate.quotas.end_of(rule), quota.next)
  end
  for unit, budget in pairs(gate.observed or {}) do
    counted[#counted + 1] = 'o:' .. budgets().describe(unit, budget)
  end
  local sum, added
  if gate.rules.units then
    sum, added = estimates().add({}, gate)
  end
  for unit, units in pairs(sum and added or {}) do
    counted[#counted + 1] = string.format('e:%s:%.0f', unit, units)
  end
  local state = string.format('%.17g %s %s %.17g %.17g %.17g %.17g %.17g %.17g %.0f %.6f', gate.opens, gate.why, probe,
    gate.rate, gate.since, gate.used, gate.learned, gate.beside, gate.climb or CLIMB, out, gate.turn)
  return state .. '\t' .. table.concat(paid, ' ') .. '\t' .. table.concat(counted, ' ')
end

local function gate_line(scope)
  local gate = gate_of(scope)
  local text = line_of(gate) .. '\t' .. (gate.rules.unreadable and '?' or gate.rules.text or '')
  if gate.rules.members then
    pool_at(gate, {}, math.huge)
    for _, mate in ipairs(gate.mates) do
      text = text .. '\n' .. line_of(mate) .. '\t' .. string.format('%.17g', mate.last)
    end
  end
  return text
end
