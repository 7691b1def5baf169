-- plain_limits: apply limits of one window, and the concurrency of groups, in the short way of pop (pop_plain).
-- Needs: now, window_rule, pace, moving, plain_gate, plain_text
-- Gives: plain_limits(rules, gate, setting): true if the limit of the queue is of this kind, and lets a task run. The
--        arguments are settings (pop_plain);
--        queue_free(), true if the limit of the queue lets one more task run;
--        group_lets(group), true if a group lets its task run; nil if pop is to decide;
--        charge_plain(group, id, token), which charges for a task. It returns true if it closes the group;
--        store_plain(), which stores what has changed. It returns the text of the queue's gate, or nil; and when the
--        first of the closed groups opens, ms, or nil.
local queue, costs_differ
local gate_of_group, out_of, gone, moments, opening = {}, {}, {}, {}, nil

local function queue_free()
  return not queue or plain_at(queue) <= instant
end

local function plain_limits(rules, gate, setting)
  local own = rules and plain_limit(rules)
  if own and own.concurrency == 0 then
    own.own = true
    queue = read_plain('', own, gate)
  end
  costs_differ = setting
  return (queue or not (rules or gate)) and queue_free()
end

local function group_lets(group)
  local gate = gate_of_group[group]
  if gate == nil then
    gate = group_gate(group, redis.call('HGET', gates, group), costs_differ)
    gate_of_group[group] = gate
  end
  return gate == false
    or gate and plain_at(gate) <= instant and not (gate.out and gate.out >= gate.rules.concurrency)
end

-- Charges the windows of a gate for one unit.
local function pay_all(gate, token)
  for i, rule in ipairs(gate.rules) do
    local window = gate[i]
    if rule.moving then
      charge_moving(gate, i, 1, token)
    else
      pay_window(window, 1, instant)
    end
    window.granted = window.granted and window.granted + 1
  end
  gate.out = gate.out and gate.out + 1
end

local function charge_plain(group, id, token)
  local gate, opens = gate_of_group[group], 0
  if queue then
    pay_all(queue, token)
  end
  if gate then
    pay_all(gate, token)
    gate.changed, opens = true, plain_at(gate)
    if gate.out then
      out_of[#out_of + 1], out_of[#out_of + 2] = '0', group .. '\t' .. id
      opens = gate.out >= gate.rules.concurrency and math.max(opens, now + 30000) or opens -- as next_at
    end
  end
  if opens > instant then
    gone[#gone + 1], moments[#moments + 1], moments[#moments + 2] = group, string.format('%.17g', opens), group
    opening = math.min(opening or opens, opens)
  end
  return opens > instant
end

local function store_plain()
  local texts = {}
  if gone[1] then
    redis.call('HDEL', groups, unpack(gone))
    redis.call('ZADD', closed, unpack(moments))
  end
  if out_of[1] then
    redis.call('ZADD', tracked, unpack(out_of))
  end
  for group, gate in pairs(gate_of_group) do
    if gate and gate.changed then
      texts[#texts + 1], texts[#texts + 2] = group, plain_text(gate)
    end
  end
  if texts[1] then
    redis.call('HSET', gates, unpack(texts))
  end
  return queue and plain_text(queue), opening
end
