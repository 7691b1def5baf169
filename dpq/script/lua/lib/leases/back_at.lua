-- back_at: find out when the task comes back that holds a group in order (hold).
-- Gives: back_at(gate), ms, or nil if no task holds the group.
local function back_at(gate)
  local from, to, back = '[' .. gate.scope .. '\t', '(' .. gate.scope .. '\n', nil
  local held = gate.rules.in_order and redis.call('ZRANGE', tracked, from, to, 'BYLEX', 'LIMIT', '0', '9') or {}
  for _, entry in ipairs(held) do
    local due = tonumber(redis.call('ZSCORE', delayed, string.match(entry, '[^\t]*$')) or '')
    back = due and math.max(due, back or 0) or back
  end
  return back
end
