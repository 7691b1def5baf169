-- bounds: check the arguments of push, so that programs without DPQ's client keep to the same bounds.
-- Gives: bounded(args), for the arguments of push: the ids of the tasks; the groups of the plain tasks, by the number
--        of the task; true if some tasks are not plain; and an error that push is to answer, or nil.
local function bounded(args)
  local ids, group_of, others = {}, {}, false
  for i = 2, #args, 3 do
    local id, spec, body, wrong = args[i], args[i + 1], args[i + 2], nil
    ids[#ids + 1] = id
    if string.byte(spec) == 123 then -- "{": options
      others = true
    else
      local group = string.match(body, '^%d* %-?%d+\t([^\t\n]*)\n')
      if not group or #spec > 20 or not string.find(spec, '^%-?%d+$') then
        return ids, nil, nil, redis.error_reply('ERR DPQ: a plain task has no score, or no record')
      end
      group_of[#ids] = group
      wrong = #group > 200 and 'group'
    end
    wrong = wrong or #id > 200 and 'id' or #body > 67108864 and 'payload'
    if wrong then
      wrong = 'the ' .. wrong .. ' is too long: at most 200 bytes, a payload 64 MiB'
      return ids, nil, nil, redis.error_reply('ERR DPQ: ' .. wrong)
    end
  end
  return ids, group_of, others
end
