-- bounds: what is pushed by other means than DPQ's client keeps to the same bounds.
-- Gives: bounded(args), for the arguments of push: the groups of its plain tasks, by the index of their ids; and an
--        error that it is to answer, or nil.
local function bounded(args)
  local group_of = {}
  for i = 2, #args, 3 do
    local spec, body, wrong, group, key = args[i + 1], args[i + 2], nil, nil, nil
    if string.byte(spec) ~= 102 then
      group = string.match(body, '^%d* %-?%d+\t([^\t\n]*)\n')
      if not group or not tonumber(spec) then
        return nil, redis.error_reply('ERR DPQ: a plain task has no score, or no record')
      end
      group_of[i] = group
    end
    if not group and #spec > 150 then
      group, key = string.match(spec, '\t([^\t]*)\t(.*)$')
    end
    wrong = #args[i] > 200 and 'id' or #body > 67108864 and 'payload' or group and #group > 200 and 'group'
      or key and #key > 200 and 'key'
      or #spec > 110 and #(string.match(spec, '^[^\t]*\30([^\t]*)') or '') > 100 and 'member'
    if wrong then
      return nil, redis.error_reply('ERR DPQ: the ' .. wrong .. ' is too long: at most 200 bytes, a payload 64 MiB')
    end
  end
  return group_of
end
