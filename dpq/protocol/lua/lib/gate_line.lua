-- gate_line: write what a scope allows as text, for a client that computes itself when tasks may run.
-- Keys: invisible tracked
-- Needs: gate
-- Gives: gate_line(scope): its rules ("" without a limit, "?" if they cannot be read), TAB, `opens why probe rate since
--        used learned beside out`, TAB, and until when each window is paid. `probe` is -, p, or `id@ms`: the probe that
--        is out, and when its lease ends. `out`: the leases that count towards its concurrency; 0 without one.
local function gate_line(scope)
  local gate = gate_of(scope)
  local probe, out, paid = gate.probe, 0, {}
  if probe ~= '-' and probe ~= 'p' then
    local lease = redis.call('ZSCORE', invisible, probe)
    probe = lease and probe .. '@' .. lease or '-'
  end
  if gate.rules.concurrency > 0 then
    out = scope == '' and redis.call('ZCARD', invisible)
      or redis.call('ZLEXCOUNT', tracked, '[' .. scope .. '\t', '(' .. scope .. '\n')
  end
  for i, window in ipairs(gate) do
    paid[i] = string.format('%.17g', window.paid)
  end
  local state = string.format('%.17g %s %s %.17g %.17g %.17g %.17g %.17g %.0f', gate.opens, gate.why, probe, gate.rate,
    gate.since, gate.used, gate.learned, gate.beside, out)
  return (gate.rules.unreadable and '?' or gate.rules.text or '') .. '\t' .. state .. '\t' .. table.concat(paid, ' ')
end
