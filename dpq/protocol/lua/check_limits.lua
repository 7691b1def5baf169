-- check_limits: find broken invariants in a bounded part of the settings, the limits and their gates.
--
-- Keys: invisible meta conf limits gates tracked stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  part       settings, limits, kept (limits that have only a copy), tracked, gates or invisible
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to check, about
--
-- Returns as check does: {next cursor or 0, kind, subject, detail, kind, ...}.
-- Lost reply: safe to send again.
local time, part, cursor, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Needs: now, problem, sound, settings, limits_page
if part == 'settings' then
  reply[1] = '0'
  settings_fault()
  unreadable('queue', redis.call('HGET', conf, 'queue_rules'))
  return reply
end
local set, page = limits_page(part, cursor, count)
reply[1] = page[1]
if set == gates and cursor == '0' then
  gate_fault('', redis.call('HGET', conf, 'queue_gate') or '- ')
end
for i = 1, #page[2], 2 do
  if set == limits then
    if name_of(page[2][i]) then
      unreadable(page[2][i], page[2][i + 1])
    else
      problem('stray limit', page[2][i], page[2][i + 1])
    end
  elseif set == stats then
    limit_lost(page[2][i], page[2][i + 1])
  elseif set == gates then
    if not stray(page[2][i], page[2][i + 1]) then
      gate_fault(page[2][i], page[2][i + 1])
    end
  elseif set == tracked then
    lease_fault(page[2][i], page[2][i + 1])
  else
    lease_uncounted(page[2][i])
  end
end
return reply
