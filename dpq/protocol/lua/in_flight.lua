-- in_flight: list the groups of the running tasks, a page at a time.
--
-- Keys: invisible meta
-- ARGV[1]  cursor     "0" to begin
--
-- Returns {next cursor, or "0" at the end, group, ...}: a group for each lease. It is "" for a task without a group,
-- and "group TAB member" for a task that runs as a member of a pool.
-- Lost reply: safe to send again.
local cursor = ARGV[1]

-- Needs: layout, marks
local page = redis.call('ZSCAN', invisible, cursor, 'COUNT', '500')
local ids, reply = {}, { page[1] }
for i = 1, #page[2], 2 do
  ids[#ids + 1] = page[2][i]
end
for _, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
  local group, member = string.match(raw or '', GROUP) or '', nil
  if raw and string.find(raw, RUNS_AS, 1, true) then
    member = string.match(raw, '^[^\n]*' .. RUNS_AS .. string.match(raw, '^%d*') .. ' ([^\t\n]*)')
  end
  reply[#reply + 1] = group .. (member and '\t' .. member or '')
end
return reply
