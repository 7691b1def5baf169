-- some_costs: read what some of many tasks cost.
-- Keys: meta
-- Needs: record, cost, estimate
-- Gives: costs_of(ids, gate): the units by name that each of these tasks takes, with what the gate reserves for it; of
--        one request, if there is no such task.
local function costs_of(ids, gate)
  local costs = {}
  for _, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
    local task = raw and read(raw)
    costs[#costs + 1] = task and (estimated(weigh(task.cost), gate))
  end
  return costs[1] and costs or { (estimated(weigh('1'), gate)) }
end
