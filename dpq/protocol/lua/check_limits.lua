-- check_limits: find broken invariants in a bounded part of the settings, the limits and the counted leases, and mend
-- them if a repair asks for that. After a repair no limit grants more than it may. A limit that cannot be read and has
-- no copy stays as it is, and lets no task run.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead conf wake tick limits gates tracked stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  part       settings, limits, kept (limits that have only a copy), tracked or invisible
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to check, about
-- ARGV[5]  mend       "1": mend each problem; else only look, and call no command that writes
--
-- Returns {next cursor or 0, kind, subject, detail, kind, ...}: three texts for each problem. {-8, ...}: the client
-- knows another format (refusal). {"-20"}: the family has other queues than the client knows: read the settings
-- (configure), and begin with this part again.
-- Lost reply: safe to send again; a mended problem is not named a second time.
local time, part, cursor, count, mend = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Needs: now, refusal
local refused = refusal(redis.call('HGET', conf, 'format'), nil, '0')
if refused then
  return refused
end
-- Needs: kinship
local listed = redis.call('HGET', shared, 'family') or redis.call('HGET', copies, 'kept.family')
if part == 'tracked' and not knows_kin(listed) then -- else the leases of an unknown queue would look like damage
  return { '-20' }
end
local mends = mend == '1'
-- Needs: record, problem, counted, open_or_close, place, noted, settings, stale, go_on, scan
if mends then
  go_on()
end

local set = ({ limits = limits, kept = copies, tracked = tracked, invisible = invisible })[part]
local page = { '0', {} }
if set then
  page = scan((set == limits or set == copies) and 'HSCAN' or 'ZSCAN', set, cursor, count)
end
reply[1] = page[1]
if not set then
  look_at_settings(mends)
  if shared ~= conf and redis.call('HGET', conf, 'format') and not is_listed(listed) then
    problem('not in its family', conf, 'in conf of the head')
  end
end
for i = 1, #page[2], 2 do
  local name, value = page[2][i], page[2][i + 1]
  if set == limits then
    look_at_limit(name, value, mends)
  elseif set == copies then
    look_at_copy(name, value, mends)
  elseif set == tracked then
    if is_stale(name) and mends then
      redis.call('ZREM', tracked, name)
      stirred[string.match(name, '^\14?([^\t\11\12\14]*)')] = true -- a consumer may wait for the end of this lease
    end
  else
    local task = read(redis.call('HGET', meta, name) or '')
    for _, member in ipairs(task and entries_of(name, task) or {}) do
      if not redis.call('ZSCORE', tracked, member) then
        problem('lease not counted', name, member == '\t' .. name and '' or task.group)
        if mends then
          redis.call('ZADD', tracked, '0', member)
        end
      end
    end
  end
end
if mends then
  if set == copies and page[1] == '0' then
    note_limits(limits_there())
  end
  admit()
end
return reply
