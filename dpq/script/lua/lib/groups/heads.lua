-- heads: write and read the texts of heads (groups), and store many heads at once.
-- Needs: hash_table
-- Gives: score_text(score); behind(group, score, member); head_in(text); heir_of(group); is_hundredth(member);
--        raise_heir(group), which makes the best waiting task of a group its head, without a turn, or returns false;
--        lead_all(members, heads, former).

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

-- Reads the text of a head, or false. Returns its score, its member with its place, and its member of ready.
local function head_in(text)
  local score, shown, member = string.match(text or '', '^(%S+) (%S+) ?(%S*)$')
  return tonumber(score), member == '' and shown or member, shown
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

local function raise_heir(group)
  local score, member, heir = heir_of(group)
  if not heir then
    redis.call('HDEL', groups, group)
    return false
  end
  local text = score_text(score)
  redis.call('ZREM', waiting, heir)
  redis.call('ZADD', ready, text, member)
  redis.call('HSET', groups, group, text .. ' ' .. member)
  return true
end

local function is_hundredth(member) -- by the last digits of its sequence
  return string.sub(member, 15, 16) == '00'
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
end
