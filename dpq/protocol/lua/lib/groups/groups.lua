-- groups: keep the best task of each group, its head, in ready, and the other tasks of the group in waiting. With round
-- robin, the order of a head is its turn: a group that was served goes to the end. Or it is what its group has spent.
--
-- Keys: ready waiting groups conf
-- Needs: hash_table, order, shares, next_turn
-- Gives: score_text(score); behind(group, score, member); heir_of(group); head_of(group); head_in(text);
--        lead(group, score, member, turn), which makes a member the head of its group. `turn` is that of its last head,
--          or nil; by what groups spend (shares) it may be true;
--        lead_all(members, heads, former); succeed(group, turn); shut(group);
--        admitted, how many tasks have become ready in this script.
local admitted, fairness = 0, nil

-- Writes a member of waiting: the group, then the score, then the ready member. The score has 18 hex digits that sort
-- like the double: one for the sign, 3 for the exponent, 14 for the mantissa. Below zero they are complemented.
local function behind(group, score, member)
  local mantissa, exponent = math.frexp(math.abs(score))
  local sign, high, low = '8', exponent + 1100, mantissa * 2 ^ 53
  if score == 0 then
    high = 0
  elseif score < 0 then
    sign, high, low = '7', 4095 - high, 2 ^ 53 - low
  end
  return string.format('%s\t%s%03x%014x%s', group, sign, high, low, member)
end

local function score_text(score)
  return string.format(score % 1 == 0 and score < 1e15 and score > -1e15 and '%d' or '%.17g', score)
end

-- Finds the best waiting task of a group. Returns its score, its member with its place, and its member of waiting.
local function heir_of(group)
  local from, to = '[' .. group .. '\t', '(' .. group .. '\n'
  local heir = redis.call('ZRANGEBYLEX', waiting, from, to, 'LIMIT', '0', '1')[1]
  if not heir then
    return
  end
  local sign, high, low, member = string.match(heir, '^(%x)(%x%x%x)(%x%x%x%x%x%x%x%x%x%x%x%x%x%x)(.*)$', #group + 2)
  if not member or #member < 17 then -- DPQ has not written this member: it would stay before all others for ever
    redis.call('ZREM', waiting, heir)
    return heir_of(group)
  end
  high, low = tonumber(high, 16), tonumber(low, 16)
  if sign == '8' then
    return math.ldexp(low, high - 1153), member, heir
  end
  return -math.ldexp(2 ^ 53 - low, 4095 - high - 1153), member, heir
end

-- Reads the text of a head, or false. Returns its score, its member with its place, and its member of ready.
local function head_in(text)
  local score, shown, member = string.match(text or '', '^(%S+) (%S+) ?(%S*)$')
  return tonumber(score), member == '' and shown or member, shown
end

local function head_of(group)
  return head_in(redis.call('HGET', groups, group))
end

local function is_hundredth(member) -- by the last digits of its sequence
  return string.sub(member, 15, 16) == '00'
end

local function lead(group, score, member, turn)
  score = score_text(score)
  local head, hundredth = score .. ' ' .. member, is_hundredth(member)
  if not fairness then
    fairness = redis.call('HGET', conf, 'fairness') or 'none'
  end
  if fairness == 'round_robin' then
    turn = turn and turn ~= true and turn or next_turn()
  elseif fairness == 'time' or fairness ~= 'none' and string.find(fairness, '^units') then
    turn = shares().place(group, score, member, turn)
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

-- Makes many heads at once, without turns. Its lists are: scores and members of ready; groups and their heads; and the
-- members of the heads before.
local function lead_all(members, heads, former)
  if former[1] then
    redis.call('ZREM', ready, unpack(former))
  end
  redis.call('ZADD', ready, unpack(members))
  redis.call('HSET', groups, unpack(heads))
  as_table(groups, #heads >= 16 or is_hundredth(members[2]))
  admitted = admitted + #members / 2
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
