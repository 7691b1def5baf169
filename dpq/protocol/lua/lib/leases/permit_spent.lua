-- permit_spent: replace what a permit was charged by what it has told to have spent. Only while its lease has not
-- ended: so it counts once.
-- Keys: tracked
-- Needs: true_up, marks
-- Gives: permit_spent(scopes, held, told, cost, moment, refused), for the scopes of the permit, the one of a pool's
--        member last; what it holds; and what it was charged, at that moment, ms. If it was `refused`, units beside
--        requests of which it tells nothing count as not spent.
local function permit_spent(scopes, held, told, cost, moment, refused)
  local there = false
  for _, scope in ipairs(scopes) do
    there = there or redis.call('ZSCORE', tracked, scope .. '\t' .. held)
  end
  if there then
    local token = string.format('%.0f', math.floor(tonumber(moment) * 1000))
    local group, member = string.match(scopes[#scopes], '^([^\t]*)\t?(.*)$')
    local options = member ~= '' and RUNS_AS .. token .. ' ' .. member or ''
    local task = { group = group, token = token, cost = cost, options = options }
    true_up(task, told)
    if refused then
      true_up(task, nothing_of(cost), true)
    end
  end
end
