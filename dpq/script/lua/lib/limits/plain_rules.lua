-- plain_rules: read the rules of a limit that stand, as people see them.
-- Gives: plain_rules(rules), rules without the days on which a zone's clock changes: they would be most of the text;
--        hash_of(field), the hash that holds the rules of a field of limits ("queue" for the queue), and their name;
--        stored_rules(hash, name), the stored rules, or false; and what stands, plain, "" for no limit.
local function plain_rules(rules)
  local windows, members = string.match(rules, '^([^\t]*)(.*)$')
  return string.gsub(windows, ' %-?%d+:%-?%d[%d:,%-]*', ' 0:0') .. members
end

local function hash_of(field)
  if field == 'queue' then
    return conf, 'queue_rules'
  end
  return limits, field
end

local function stored_rules(hash, name)
  local stored = redis.call('HGET', hash, name)
  return stored, plain_rules(stored or '')
end
