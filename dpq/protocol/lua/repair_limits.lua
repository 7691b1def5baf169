-- repair_limits: mend a bounded part of the settings, the limits and their gates. No limit then grants more than it
-- may. A limit that cannot be read and has no copy stays as it is, and lets no task run.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf wake tick limits gates tracked stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  part       settings, limits, kept (limits that have only a copy), gates, tracked or invisible
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to check, about
--
-- Returns {next cursor or 0, kind, subject, detail, kind, ...} as check does, for the problems that it has mended.
-- {-8, ...}: the client knows another format (refusal).
-- Lost reply: safe to send again; a mended problem is not named a second time.
local time, part, cursor, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Needs: now, refusal
local refused = refusal(redis.call('HGET', conf, 'format'), nil, '0')
if refused then
  return refused
end
-- Needs: problem, pace, quota, gate, booked, open_or_close, place, sound, noted, settings, mend_rules, go_on
-- Needs: limits_page, moving
go_on()
-- If a gate cannot be read, the units that it has granted are unknown. So its windows count as if they had granted all
-- that they may. A closing goes on, since `closed` knows it. If a probe has no lease, the next task is the probe.
local function mend_gate(scope, text)
  local fault = gate_fault(scope, text)
  if fault == 'bad gate' then
    redis.call('HDEL', scope == '' and conf or gates, scope == '' and 'queue_gate' or scope)
    local gate = gate_of(scope)
    for i, rule in ipairs(gate.rules) do
      if rule.moving then
        moving().fill(gate, i)
      else
        gate[i].paid = instant + rule.per + time_of(rule.burst - 1, gate[i])
        gate[i].owed, gate.changed = gate[i].paid, true
      end
    end
    if gate.quotas then
      hold_quotas(gate, {}, true)
    end
  elseif fault then
    local gate = gate_of(scope)
    gate.probe, gate.opens, gate.changed = 'p', math.max(gate.opens, now), true -- prune counts from this time
    stirred[string.match(scope, '^[^\t]*')] = true
  end
end

if part == 'settings' then
  reply[1] = '0'
  mend_settings()
  admit()
  return reply
end
local set, page = limits_page(part, cursor, count)
reply[1] = page[1]
if set == gates and cursor == '0' then
  mend_gate('', redis.call('HGET', conf, 'queue_gate') or '- ')
end
for i = 1, #page[2], 2 do
  local name = page[2][i]
  if set == limits then
    mend_limit(name, page[2][i + 1])
  elseif set == stats then
    local lost = limit_lost(name, page[2][i + 1])
    if lost then
      redis.call('HSET', limits, lost, page[2][i + 1])
      rules_back(lost)
    end
  elseif set == gates and stray(name, page[2][i + 1]) then
    redis.call('HDEL', gates, name)
  elseif set == gates then
    mend_gate(name, page[2][i + 1])
  elseif set == invisible then
    local member = lease_uncounted(name)
    if member then
      redis.call('ZADD', tracked, '0', member)
    end
  else
    local fault, held = lease_fault(name, page[2][i + 1]), string.match(name, '[^\t]*$')
    local ends = string.match(name, '\11(%d+)[wc][^\11]*$') -- the end of a caller in a line
    if fault == 'lease not counted' then
      redis.call('ZADD', tracked, '0', name)
    elseif fault or is_permit(held) and not permit_out(held) or ends and tonumber(ends) <= instant then
      -- A permit or a caller whose end has passed is no problem.
      redis.call('ZREM', tracked, name)
      stirred[string.match(name, '^[^\t\11]*')] = true -- a consumer may wait for the end of this lease
    end
  end
end
if set == stats and page[1] == '0' then
  note_limits(limits_there())
end
admit()
return reply
