-- groups: keep the best task of each group, its head, in ready, and the other tasks of the group in waiting. With round
-- robin, the order of a head is its turn: a group that was served goes to the end. Or it is what its group has spent.
-- Needs: draw, heads, hash_table, order, shares
-- Gives: head_of(group);
--        lead(group, score, member, turn), which makes a member the head of its group. `turn` is that of its last head,
--          or nil; by what groups spend (shares) it may be true;
--        lead_anew(group, score, member, headed), the same for a group that has a head, or none;
--        succeed(group, turn); shut(group);
--        admitted, how many tasks have become ready in this script.
local admitted = 0
local fairness

local function head_of(group)
  return head_in(redis.call('HGET', groups, group))
end

local function lead(group, score, member, turn)
  score = score_text(score)
  local head, hundredth = score .. ' ' .. member, is_hundredth(member)
  if not fairness then
    fairness = redis.call('HGET', conf, 'fairness') or 'none'
  end
  if fairness == 'round_robin' then
    turn = turn and turn ~= true and turn or string.format('%015.0f', draw(conf, 'turns', 1) + 1)
  elseif string.find(fairness, '^units') then
    turn = share_place(group, score, member, turn)
  else
    turn = nil
  end
  if turn then
    local shown = string.sub(member, 1, residual_in(member)) .. turn .. id_of(member)
    head, member = score .. ' ' .. shown .. ' ' .. member, shown
  end
  redis.call('ZADD', ready, score, member)
  redis.call('HSET', groups, group, head)
  as_table(groups, hundredth)
  admitted = admitted + 1
end

-- Makes the best waiting task of a group its head. Returns false if no task waits.
local function succeed(group, turn)
  local score, member, heir = heir_of(group)
  if not heir then
    redis.call('HDEL', groups, group)
    return false
  end
  redis.call('ZREM', waiting, heir)
  lead(group, score, member, turn)
  return true
end

-- Puts the head of a group back into waiting. Returns its turn.
local function shut(group)
  local score, member, shown = head_of(group)
  if score then
    redis.call('ZREM', ready, shown)
    redis.call('ZADD', waiting, '0', behind(group, score, member))
    redis.call('HDEL', groups, group)
    return shown ~= member and sequence_of(shown)
  end
end

local function lead_anew(group, score, member, headed)
  lead(group, score, member, headed and shut(group))
end
