-- costs: report to the caller of push the costs that a limit does not count as they are.
-- Keys: conf
-- Needs: rules, cost, uncounted
-- Gives: tell_uncounted(options, most, reply), for the options of up to `most` tasks. For each such cost
--        it adds a 0 and a text (uncounted) to the reply; it reads the first few groups and costs.
local MOST_LOOKED_AT = 16

local function tell_uncounted(options, most, reply)
  local looked_at, count = {}, 0
  seen.texts = seen.texts or redis.call('HMGET', conf, 'queue_rules', 'queue_gate')
  for i = 1, most do
    local cost, group = options[i] and options[i].cost, options[i] and options[i].group
    local pair = cost and cost ~= '1' and cost .. '\t' .. group
    if pair and not looked_at[pair] and count < MOST_LOOKED_AT then
      looked_at[pair], count = true, count + 1
      local of_group = group ~= '' and (rules_of('group:' .. group) or rules_of('groups'))
      for _, text in ipairs(uncounted(group, weigh(cost), rules_of('queue'), of_group)) do
        reply[#reply + 1] = 0
        reply[#reply + 1] = text
      end
    end
  end
end
