-- in_flight: list the groups of the running tasks, a page at a time.
--
-- Keys: invisible meta
-- ARGV[1]  cursor     "0" to begin
--
-- Returns {next cursor, or "0" at the end, id, group, ...}, for each lease. The group is "" for none, "group TAB member"
-- in a pool. Two pages may name the same task.
-- Lost reply: safe to send again.

-- Needs: layout, marks, scan
local page = scan('ZSCAN', invisible, cursor, '500')
local ids, reply = {}, { page[1] }
for i = 1, #page[2], 2 do
  ids[#ids + 1] = page[2][i]
end
for i, raw in ipairs(ids[1] and redis.call('HMGET', meta, unpack(ids)) or {}) do
  local group, member = string.match(raw or '', GROUP) or '', nil
  if raw and string.find(raw, RUNS_AS, 1, true) then
    member = string.match(raw, '^[^\n]*' .. RUNS_AS .. string.match(raw, '^%d*') .. ' ([^\t\n]*)')
  end
  reply[2 * i], reply[2 * i + 1] = ids[i], group .. (member and '\t' .. member or '')
end
return reply
