-- spend: charge groups for the tasks that pop has leased, if they take turns by what they spend (shares).
-- Keys: ready waiting groups conf limits
-- Needs: rules, weighted, shares
-- Gives: spend(group, cost, in_turn), for the cost of a leased task as text; `in_turn` is true if it was the head;
--        tidy_shares(), to be called after the last task: it forgets what groups have spent once all others have, too.
local charges = 0

local function spend(group, cost, in_turn)
  local unit = unit_of(redis.call('HGET', conf, 'fairness'))
  local units = unit and string.match(cost, unit == '' and '^%d+' or ',' .. unit .. '[=~](%d+)')
  if unit then
    charges = charges + 1
    shares().spend(group, math.max(tonumber(units) or 1, 1) / weight_of(group), in_turn)
    if not in_turn then
      shares().correct(group, 0)
    end
  end
end

local function tidy_shares()
  if redis.call('EXISTS', ready, waiting) == 0 then -- no group has a head
    redis.call('UNLINK', groups)
    return
  end
  local reached, drawn = (shares().clock()), redis.call('HRANDFIELD', groups, 2 * charges)
  for _, field in ipairs(charges > 0 and drawn or {}) do
    local group = string.match(field, '^\t(.+)$')
    if group and (shares().state_of(group) or 0) <= reached and redis.call('HEXISTS', groups, group) == 0 then
      redis.call('HDEL', groups, field)
    end
  end
end
