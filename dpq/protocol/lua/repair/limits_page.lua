-- limits_page: read a bounded part of the limits, or of their gates and leases.
-- Keys: invisible limits gates tracked stats
-- Gives: limits_page(part, cursor, count): the key of the part, the next cursor, and the entries: name, value, ...
local function limits_page(part, cursor, count)
  local set = ({ limits = limits, kept = stats, tracked = tracked, gates = gates, invisible = invisible })[part]
  local hash = set == limits or set == stats or set == gates
  return set, redis.call(hash and 'HSCAN' or 'ZSCAN', set, cursor, 'COUNT', count)
end
