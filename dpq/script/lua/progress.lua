-- progress: store how far the work on tasks is. Only the live delivery of a task may do so.
--
-- Keys: progress meta dead cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..]            id, token and text of a task, ...
--
-- Returns for each task 1; -1 if its token is not the live token or the delivery has ended (nothing changed). Each call
-- removes some of what deliveries that have ended have told, chosen at random. The key expires after a day.
-- Lost reply: safe to send again; the text then stands with the second time.

-- Needs: now, fence
local told, reply = {}, {}
for i = 2, #args, 3 do
  local id, token = args[i], args[i + 1]
  local task, refused = fence(id, token, '')
  reply[#reply + 1] = task and 1 or refused
  if task then
    told[#told + 1], told[#told + 2] = id, token .. ' ' .. stamp .. ' ' .. args[i + 2]
  end
end
if told[1] then
  redis.call('HSET', progress, unpack(told))
  redis.pcall('PEXPIRE', progress, '86400000')
  local drawn = redis.pcall('HRANDFIELD', progress, 4 + #told, 'WITHVALUES')
  for i = 1, #drawn, 2 do
    if not fence(drawn[i], string.match(drawn[i + 1], '^%d*'), '') then
      redis.call('HDEL', progress, drawn[i])
    end
  end
end
return reply
