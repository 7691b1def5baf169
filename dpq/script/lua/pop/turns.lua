-- turns: count the turns of groups that have a weight, with round robin.
-- Needs: groups, order
-- Gives: end_turn(gate); passes(gate, score, shown), true if the group lets its turn pass; goes_on(gate, shown), after
--        a grant; kept_turns, the turns of groups whose weight lets them run once more in the same turn.
local kept_turns = {}

local function millionths(turns) -- so that ten times 0.1 is 1
  return math.floor(turns * 1000000 + 0.5) / 1000000
end

local function end_turn(gate)
  if gate.turn > 0 then
    gate.turn, gate.changed = 0, true
  end
end

-- Returns true if the group lets its turn pass. With round robin a group of weight 3 runs three tasks in each turn. A
-- group of weight 0.4 lets its turns pass until their weights add up to a task.
local function passes(gate, score, shown)
  local of_score, member, head = head_of(gate.scope)
  local turn = shown ~= member and string.byte(sequence_of(shown)) -- a "9": by what groups have spent (shares)
  if shown ~= head or not turn or turn == 57 or gate.turn >= 1 then -- no round robin, or the group is in its turn
    return false
  end
  gate.turn, gate.changed = millionths(gate.turn + gate.rules.weight), true
  local text = string.format('%.17g', score)
  if gate.turn < 1 and redis.call('ZCOUNT', ready, text, text) > 0 then
    lead(gate.scope, of_score, member)
    return true
  end
  return false
end

local function goes_on(gate, shown)
  if gate.turn > 0 then
    gate.turn, gate.changed = math.max(millionths(gate.turn - 1), 0), true
    kept_turns[gate.scope] = gate.turn >= 1 and sequence_of(shown) or nil
  end
end
