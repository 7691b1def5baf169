-- lost: find lost settings by their copies. Settings and limits are stored twice: in conf and limits, and as copies in
-- stats, where the name of a field begins with `kept.`.
-- Keys: conf stats
-- Needs: now
-- Gives: settings(), the names of all settings that have copies; their values in conf (false if unreadable); and their
--        copies;
--        settings_lost(), {name, text, ...}: the settings that only have a copy. A pause that is over is not lost;
--        setting_keys(name), the keys `conf` and `stats` that hold a setting: the head's, if it is the family's.

-- The words that a setting may be; digits are readable as well, unless `digits` is false. Settings that are missing
-- here, such as aging, are not checked: the client reports them if it cannot read them.
local readable = { format = {}, dead_max_tasks = {}, dead_max_age = {}, paused_until = { inf = 1 },
  order = { fifo = 1, lifo = 1, min = 1, digits = false }, fairness = { none = 1, round_robin = 1, digits = false },
  payloads = { inline = 1, apart = 1, digits = false }, trail_max_events = {}, max_tasks = {}, max_waiting = {},
  when_full = { refuse = 1, drop_worst = 1, digits = false }, seen_max_keys = {} }

local function settings()
  local names = { 'format', 'order', 'aging', 'aging_since', 'fairness', 'payloads', 'partition_count',
    'dead_max_tasks', 'dead_max_age', 'trail_max_events', 'max_tasks', 'max_waiting', 'when_full', 'seen_max_keys',
    'queue_rules', 'limited', 'paused_until' }
  local fields = {}
  for i, name in ipairs(names) do
    fields[i] = 'kept.' .. name
  end
  local stored, copied = redis.call('HMGET', conf, unpack(names)), redis.pcall('HMGET', stats, unpack(fields))
  for i, name in ipairs(names) do -- an unreadable text is lost; the number of another format is readable
    local known, text = readable[name], stored[i]
    local counts = text and known and known.digits ~= false and string.match(text, '^%d+$')
    if text and known and not known[text] and not counts then
      stored[i] = false
    end
  end
  return names, stored, copied.err and {} or copied -- a key of another type: types reports it
end

local function settings_lost()
  local names, stored, copied = settings()
  local lost = {}
  for i, name in ipairs(names) do
    local over = name == 'paused_until' and copied[i] ~= 'inf' and not ((tonumber(copied[i] or 0) or 0) > now)
    if copied[i] and not stored[i] and not over then
      lost[#lost + 1], lost[#lost + 2] = name, copied[i]
    end
  end
  return lost
end
