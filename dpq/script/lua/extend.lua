-- extend: set new ends for leases, later or earlier. If a lease ran out, and no other consumer has popped the task,
-- the holder gets the lease again.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf wake tick limits gates tracked cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2..]            a lease: id, token, ms from now, ...
--
-- Returns for each lease its new end, ms; or -1 or -13 as fence does, and nothing has changed.
-- Lost reply: safe to send again, the second answer stands.

-- Needs: now, fence, go_on, notice, counted, place
local function extend(id, token, ms)
  local task, refused = fence(id, token, '')
  if not task then
    return refused
  end
  if not redis.call('ZSCORE', invisible, id) then
    leave(id, task)
    count_anew(id, task) -- the task counts as running again
  end
  redis.call('ZADD', invisible, now + ms, id)
  notice(ms)
  return now + ms
end

go_on()
local ends = {}
for i = 2, #args, 3 do
  ends[#ends + 1] = extend(args[i], args[i + 1], tonumber(args[i + 2]))
end
admit()
return ends
