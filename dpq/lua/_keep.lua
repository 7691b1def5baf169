-- _keep: the gates that have changed are stored; those that say nothing any more are forgotten.
-- Wants: instant, conf, limits, gates; gates_seen, gate_of (_gate). Gives: keep(), prune(most).
local function keep()
  local fields = {}
  for scope, gate in pairs(gates_seen) do
    if gate.changed then
      local text = string.format('%.17g %s %s %.17g %.17g %.17g', gate.opens, gate.why, gate.probe,
        gate.rules.ceiling > 0 and gate.rate or 0, gate.since, gate.used)
      for _, window in ipairs(gate) do
        text = text .. string.format(' %.17g', window.paid)
      end
      fields[#fields + 1], fields[#fields + 2] = scope, text
      gate.changed = false
    end
  end
  if #fields > 0 then
    redis.call('HSET', gates, unpack(fields))
    redis.call('HSET', conf, 'gated', '1')
  end
end

-- Looks at some gates by chance, so that those of groups that are gone cannot pile up: two for each group
-- that empties keep at most as many useless ones as useful ones.
local function prune(most)
  local drop, drawn = {}, redis.call('HRANDFIELD', gates, most)
  for _, scope in ipairs(drawn) do
    local gate = gate_of(scope)
    local until_ms = gate.opens
    for i, window in ipairs(gate.rules) do
      until_ms = math.max(until_ms, gate[i].paid + window.per)
    end
    if gate.rules.ceiling > 0 then -- what was learned is worth more than the window it was learned in
      until_ms = math.max(until_ms, gate.since + 10 * gate.rules[1].per, gate.since + 3600000)
    end
    if gate.probe ~= '-' then
      until_ms = gate.probe == 'p' and until_ms + 86400000 or math.huge
    end
    if until_ms <= instant and not gate.changed then
      drop[#drop + 1] = scope
    end
  end
  if #drop > 0 then
    redis.call('HDEL', gates, unpack(drop))
  end
  if redis.call('EXISTS', gates, limits) == 0 then
    redis.call('HDEL', conf, 'gated')
  end
end
