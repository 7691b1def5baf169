-- check_limits: find broken invariants in a bounded part of the settings, the limits and the counted leases. It changes
-- nothing.
--
-- Keys: delayed invisible payload meta conf tick limits gates tracked stats
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  part       settings, limits, tracked or invisible
-- ARGV[3]  cursor     0 to begin
-- ARGV[4]  count      entries to check, about
--
-- Returns {next cursor or 0, kind, subject, detail, kind, ...}: three texts for each problem.
-- Lost reply: safe to send again.

-- Needs: now, refusal
local refused = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
end
-- Needs: record, problem, rules, counted, stale, scan

local function look_at_rules(name, text)
  if not parsed(text) then
    problem('limit cannot be read', name, text)
  end
end

local function look_at_settings()
  local format, gated, rules = unpack(redis.call('HMGET', conf, 'format', 'gated', 'queue_rules'))
  local tasks = redis.call('HLEN', meta) + redis.call('HLEN', payload) > 0
  if tasks and not string.match(format or '', '^%d+$') then
    problem('settings lost', 'format', '')
  end
  if tasks and not redis.call('HGET', stats, 'pushed') then
    problem('settings lost', 'pushed', 'the count of all pushes')
  end
  if not gated and redis.call('EXISTS', limits, gates) > 0 then
    problem('limits not in force', 'gated', 'groups have limits or are closed')
  end
  if rules then
    look_at_rules('', rules)
  end
end

local set = ({ limits = limits, tracked = tracked, invisible = invisible })[part]
local page = { '0', {} }
if set then
  page = scan(set == limits and 'HSCAN' or 'ZSCAN', set, cursor, count)
end
reply[1] = page[1]
if not set then
  look_at_settings()
end
for i = 1, #page[2], 2 do
  local name, value = page[2][i], page[2][i + 1]
  if set == limits then
    look_at_rules(name == 'groups' and '*' or string.match(name, '^group:(.*)$') or name, value)
  elseif set == tracked then
    look_at_tracked(name)
  else
    local task = read(redis.call('HGET', meta, name) or '')
    local member = task and counted_as(name, task)
    if member and not redis.call('ZSCORE', tracked, member) then
      problem('lease not counted', name, task.group)
    end
  end
end
return reply
