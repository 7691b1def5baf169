-- bounds: what is pushed by other means than DPQ's client keeps to the same bounds.
-- Gives: out_of_bounds(args), for the arguments of push: an error that it is to answer, or nil.
local function out_of_bounds(args)
  for i = 2, #args, 3 do
    local spec = args[i + 1]
    local wrong = #args[i] > 200 and 'id' or #args[i + 2] > 67108864 and 'payload'
    if #spec > 150 then
      local group, key = string.match(spec, '\t([^\t]*)\t(.*)$')
      wrong = wrong or #(group or spec) > 200 and 'group' or #(key or '') > 200 and 'key'
    end
    if wrong then
      return redis.error_reply('ERR DPQ: the ' .. wrong .. ' is too long: at most 200 bytes, a payload 64 MiB')
    end
  end
end
