-- permit_spent: replace what a permit was charged by what it has told to have spent. Only while its lease has not
-- ended: so it counts once.
-- Keys: tracked
-- Needs: true_up
-- Gives: permit_spent(scopes, held, told, cost, moment, implied), for the scopes of the permit, the one of a pool's
--        member last; what it holds; and what it was charged, at that moment, ms. `implied` is as for true_up.
local function permit_spent(scopes, held, told, cost, moment, implied)
  local there = false
  for _, scope in ipairs(scopes) do
    there = there or redis.call('ZSCORE', tracked, scope .. '\t' .. held)
  end
  if there and told ~= '' then
    local token = string.format('%.0f', math.floor(tonumber(moment) * 1000))
    local group, member = string.match(scopes[#scopes], '^([^\t]*)\t?(.*)$')
    local options = member ~= '' and '\28' .. token .. ' ' .. member or ''
    true_up({ group = group, token = token, cost = cost, options = options }, told, implied)
  end
end
