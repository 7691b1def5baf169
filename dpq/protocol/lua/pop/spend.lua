-- spend: charge a group for a task that pop has leased, if groups take turns by what they spend (shares).
-- Keys: ready waiting groups conf
-- Needs: weighted, shares
-- Gives: spend(group, cost, in_turn), for the cost of the task as text; `in_turn` is true if the task was the head of
--        the group, false if it was that but was taken by its id, nil if the head is another task. It also forgets what
--        two other groups have spent, if all others have spent as much.
local function spend(group, cost, in_turn)
  local unit = unit_of(redis.call('HGET', conf, 'fairness'))
  local units = unit and string.match(cost, unit == '' and '^%d+' or ',' .. unit .. '[=~](%d+)')
  if redis.call('EXISTS', ready, waiting) == 0 then -- no group has a head: they begin anew
    redis.call('UNLINK', groups)
  elseif unit then
    shares().spend(group, math.max(tonumber(units) or 1, 1) / weight_of(group), in_turn)
    if in_turn == nil then
      shares().correct(group, 0)
    end
  end
  for _, field in ipairs(redis.call('HRANDFIELD', groups, '2') or {}) do
    local other = string.match(field, '^\t(.+)$')
    if other and (shares().state_of(other) or 0) <= shares().clock() and redis.call('HEXISTS', groups, other) == 0 then
      redis.call('HDEL', groups, field)
    end
  end
end
