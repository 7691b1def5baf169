-- held: find the lease of a permit, and correct what it was charged. The name of the lease in `tracked` holds its end,
-- so each extension changes the name. A caller whose answer was lost knows an old name.
-- Needs: true_up, notes
-- Gives: held_now(scopes, held), for the scopes of the permit. It returns the name that the lease has now; or `held` if
--        the lease has ended;
--        permit_spent(scopes, held, report, cost, moment, refused), which replaces the `cost` that it was charged at
--        `moment`, ms, by the units of the report, while its lease `held` has not ended: so each report counts once. If
--        the host `refused` the request, units that the report leaves out count as not spent, except requests.
local function held_now(scopes, held)
  local member = held
  for _, scope in ipairs(scopes) do
    if not redis.call('ZSCORE', tracked, scope .. '\t' .. member) then
      local from, to = '[' .. scope .. '\t~', '(' .. scope .. '\t\127'
      local others = redis.call('ZRANGEBYLEX', tracked, from, to, 'LIMIT', '0', '1000')
      for _, other in ipairs(others) do
        if string.sub(other, #scope + 17) == string.sub(held, 16) then
          member = string.sub(other, #scope + 2)
        end
      end
    end
  end
  return member
end

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
