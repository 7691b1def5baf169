-- prune: remove gates that hold nothing any more. Each call checks a few gates at random, so gates of groups that are
-- gone cannot pile up. With two checks for each group that becomes empty, at most half of the gates are useless.
-- Needs: now, gate, booked, meters, notice
-- Gives: prune(most), which checks at most that many gates and returns how many it has removed;
--        drop_ended(most), the same for gates that hold only grants.

-- True if no window of the gate counts what it has granted any more.
local function has_ended(text)
  local until_ms = 0
  for per, upto in string.gmatch(text, ' ([1-9]%d*)[a-z0-9_]*:([%d.]+)') do
    until_ms = math.max(until_ms, per + (tonumber(upto) or 0))
  end
  return until_ms <= instant
end

local function holds_only_grants(text) -- a name that begins with 0 is what the limit has learned
  return string.find(text, '^%- [%l%d:._ ]*$') and not string.find(text, ' 0:', 1, true)
end

local function drop_ended(most)
  local drawn = redis.call('HRANDFIELD', gates, most, 'WITHVALUES') or {}
  for i = 1, #drawn, 2 do
    if has_ended(drawn[i + 1]) and holds_only_grants(drawn[i + 1]) then
      redis.call('HDEL', gates, drawn[i])
    end
  end
end

local function prune(most)
  local drop, drawn = {}, redis.call('HRANDFIELD', gates, most, 'WITHVALUES') or {}
  for i = 1, #drawn, 2 do
    local scope, over = drawn[i], has_ended(drawn[i + 1])
    if over and holds_only_grants(drawn[i + 1]) then
      drop[#drop + 1] = scope
    elseif over then
      local gate = gate_of(scope)
      local until_ms = gate.opens
      for n, rule in ipairs(gate.rules) do
        until_ms = math.max(until_ms, gate[n].paid + rule.per)
      end
      if gate.rules.ceiling > 0 then -- keep a learned rate longer than its window
        until_ms = math.max(until_ms, gate.since + 10 * gate.rules[1].per, gate.since + 3600000)
      end
      for _, meter in pairs(gate.meters or {}) do
        until_ms = math.max(until_ms, kept_until(meter))
      end
      if gate.spent ~= '' then -- keep spent values an hour longer, those of a pool until it is no pool
        until_ms = gate.rules.every and math.huge or until_ms + 3600000
      end
      if gate.met > 0 then -- keep the count of 429s: a new gate would start at 0
        until_ms = math.huge
      end
      if gate.slack > 0 then
        until_ms = math.max(until_ms, gate.beside + 3 * gate.half)
      end
      if gate.gone then -- a member that left the pool may come back: keep it while it is closed, or its grants count
        until_ms = gate.opens < UNTIL_OPENED and gate.opens or 0
        gate.changed = false
      elseif gate.turn > 0 and redis.call('HEXISTS', groups, scope) == 1 then -- the group is in its turn
        until_ms = math.huge
      elseif gate.rest then -- its rules are lost, or cannot be read
        until_ms = math.huge
      end
      if gate.booked then -- permits are out, or callers wait
        until_ms = math.max(until_ms, gate.booked[2], gate.booked[5])
      end
      if gate.probe ~= '-' and not gate.gone then
        until_ms = gate.probe == 'p' and until_ms + 86400000 or math.huge
      end
      local more = forget_ended(gate) -- also remove ended leases of gates that stay
      if until_ms <= instant and not more then
        gate.changed = false
        drop[#drop + 1] = scope
      end
    end
  end
  if #drop > 0 then
    redis.call('HDEL', gates, unpack(drop))
  end
  if redis.call('EXISTS', gates, limits) == 0 and redis.call('HEXISTS', conf, 'queue_rules') == 0 then
    redis.call('HDEL', conf, 'gated')
  end
  return #drop
end
