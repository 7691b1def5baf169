-- reopen: open a closed group when one of its leases ends, in the short way of ack (ack_plain). It does what
-- open_or_close does, for limits of one window and a concurrency.
-- Needs: now, window_rule, plain_gate, heads, notice, rouse
-- Gives: reopening(group, text), when a group without this lease may open, ms, by the text of its gate; nil if ack is
--        to decide;
--        reopen(group, at), to be called after the lease has ended.
local shut_until

local function reopening(group, text)
  local settings = redis.call('HMGET', conf, 'heavy', 'fairness', 'shut_until')
  local texts = redis.call('HMGET', limits, 'groups', 'group:' .. group)
  local rules, gate = plain_limit(texts[2] or texts[1] or ''), nil
  if rules and settings[1] ~= '1' and (settings[2] or 'none') == 'none' then
    rules.own, shut_until = texts[2] and true, settings[3]
    gate = read_plain(group, rules, text)
  end
  local out = gate and redis.call('ZLEXCOUNT', tracked, '[' .. group .. '\t', '(' .. group .. '\n')
  return out and out <= rules.concurrency and redis.call('HEXISTS', groups, group) == 0 and plain_at(gate) or nil
end

local function reopen(group, at)
  if at > instant then
    redis.call('ZADD', closed, string.format('%.17g', at), group)
    notice(at - now)
  elseif redis.call('ZREM', closed, group) == 1 and raise_heir(group) then
    rouse(1, shut_until)
  end
end
