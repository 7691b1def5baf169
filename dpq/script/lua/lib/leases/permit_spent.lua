-- permit_spent: replace what a permit was charged by what the client reports as spent. This works only while the lease
-- of the permit has not ended, so each report counts once.
-- Needs: true_up, marks
-- Gives: permit_spent(scopes, held, report, cost, moment, refused). `scopes` are those of the permit; the scope of a
--        pool's member comes last. `held` is the name of its lease. `report` has the units that were spent. The permit
--        was charged `cost` at `moment`, ms. If the host `refused` the request, units that the report leaves out count
--        as not spent, except requests.
local function permit_spent(scopes, held, report, cost, moment, refused)
  local there = false
  for _, scope in ipairs(scopes) do
    there = there or redis.call('ZSCORE', tracked, scope .. '\t' .. held)
  end
  if there then
    local token = string.format('%.0f', math.floor(tonumber(moment) * 1000))
    local group, member = string.match(scopes[#scopes], '^([^\t]*)\t?(.*)$')
    local options = member ~= '' and RUNS_AS .. token .. ' ' .. member or ''
    local task = { group = group, token = token, cost = cost, options = options }
    true_up(task, report)
    if refused then
      true_up(task, nothing_of(cost), true)
    end
  end
end
