-- spend: charge a group for a task that pop has leased, if groups take turns by what they spend (shares).
-- Needs: shares
-- Gives: spend(taken), for the table of take. Its field `charged` is {group, cost, in_turn}: the cost of the task as
--        text; `in_turn` is true if the task was the head of the group, but false if it was taken by its id. It also
--        forgets what two groups have spent, if all others have spent as much; of a hundred, if no task is left.
local function spend(taken)
  local group, cost, in_turn = unpack(taken.charged)
  local unit = unit_of(redis.call('HGET', conf, 'fairness'))
  local units = unit and string.match(cost, unit == '' and '^%d+' or ',' .. unit .. '[=~](%d+)')
  local idle = redis.call('EXISTS', ready, waiting) == 0 -- no group has a head: all begin anew
  if unit and not idle then
    charge_share(group, math.max(tonumber(units) or 1, 1) / weight_of(group), in_turn)
  end
  local drawn = redis.call('HRANDFIELD', groups, idle and '100' or '2') or {}
  for _, field in ipairs(drawn) do
    local other = string.match(field, '^\t(.*)$')
    if other and idle and (other ~= '' or #drawn < 100) or other and other ~= ''
      and (share_of(other) or 0) <= share_clock() and redis.call('HEXISTS', groups, other) == 0 then
      redis.call('HDEL', groups, field)
    end
  end
  taken.charged = nil
end
