-- plain_limits: apply limits of one window, and the concurrency of groups, in the short way of pop (pop_plain).
-- Needs: now, window_rule, plain_gate, plain_text
-- Gives: plain_limits(rules, gate, heavy): true if all limits of the queue are of this kind, and it lets a task
--        run. The arguments are settings (pop_plain);
--        queue_free(), true if the limit of the queue lets one more task run;
--        group_lets(group), true if a group lets its task run; nil if pop is to decide;
--        charge_plain(group, id, token), which charges for a task. It returns true if it closes the group;
--        store_plain(), which stores what has changed. It returns the text of the queue's gate, or nil; and when the
--        first of the closed groups opens, ms, or nil.
local own_limits, of_all, queue = 0, nil, nil
local gate_of_group, out_of, gone, moments, opening = {}, {}, {}, {}, nil

local function queue_free()
  return not queue or plain_at(queue) <= instant
end

local function plain_limits(rules, gate, heavy)
  local count, own = redis.call('HLEN', limits), rules and plain_limit(rules)
  local text = count > 0 and redis.call('HGET', limits, 'groups')
  of_all = text and plain_limit(text)
  own_limits = count - (text and 1 or 0)
  if own and own.concurrency == 0 then
    own.own = true
    queue = read_plain('', own, gate)
  end
  return (queue or not (rules or gate))
    and (of_all or not text) and not (count > 0 and heavy == '1') and queue_free()
end

local function group_lets(group)
  local gate = gate_of_group[group]
  local own = not gate and own_limits > 0 and redis.call('HGET', limits, 'group:' .. group)
  local rules = own and plain_limit(own) or not own and of_all
  if rules and not gate then
    rules.own = own and true
    gate = read_plain(group, rules, redis.call('HGET', gates, group))
    if gate and rules.concurrency > 0 then
      gate.out = redis.call('ZLEXCOUNT', tracked, '[' .. group .. '\t', '(' .. group .. '\n')
    end
    gate_of_group[group] = gate
  end
  if gate then
    return plain_at(gate) <= instant and not (gate.out and gate.out >= gate.rules.concurrency)
  end
  return not own and not of_all and redis.call('HEXISTS', gates, group) == 0
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
    if gate.changed then
      texts[#texts + 1], texts[#texts + 2] = group, plain_text(gate)
    end
  end
  if texts[1] then
    redis.call('HSET', gates, unpack(texts))
  end
  return queue and plain_text(queue), opening
end
