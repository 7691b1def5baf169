-- workers: read which workers are alive, a page at a time.
--
-- Keys: workers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  cursor     "0" to begin
-- ARGV[3]  forget     number: ms without a heartbeat after which a worker is left out
-- ARGV[4]  what       "leases" to read the tokens of the workers' leases as well; one such token to read only the
--                     worker that has it; else ""
--
-- Returns {next cursor ("0" at the end), now (ms), field, value, ...}. The field is the id of a worker, and its value
-- the worker's record; or the id and a TAB, and what the worker was doing (beat). Two pages may name the same worker.
-- Lost reply: safe to send again.

-- Needs: now, scan
local page = scan('HSCAN', workers, cursor, '200')
local reply = { page[1], stamp }
for i = 1, #page[2], 2 do
  local seen = tonumber(string.match(page[2][i + 1], '^%d+') or 0)
  if seen + forget > now and seen <= now + forget then -- another program wrote a time to come
    local field, value = page[2][i], page[2][i + 1]
    if what ~= 'leases' and string.sub(field, -1) == '\t' then
      local doing, tokens = string.match(value, '^([^\t]*)\t?(.*)')
      local has = what ~= '' and string.find(' ' .. tokens .. ' ', ' ' .. what .. ' ', 1, true)
      value = has and doing .. '\t' .. what or doing
    end
    reply[#reply + 1], reply[#reply + 2] = field, value
  end
end
return reply
