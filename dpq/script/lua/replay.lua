-- replay: make dead tasks ready again, all at once or one after the other.
--
-- Keys: ready delayed invisible waiting groups closed meta dead conf stats wake tick limits gates tracked
--       events changes batches followers
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  first      number: ms from now until the first task is due
-- ARGV[3]  spacing    number: ms from each task to the next; it may have a fraction
-- ARGV[4]  told       number: tasks that earlier steps of the same action have replayed: the event counts them, too; ""
--                     if a later step tells of this one
-- ARGV[5..]            ids
--
-- Returns how many tasks were dead and are live now, with all their attempts again. A task that died with one that it
-- waited for waits for it again, if that one is live by now.
-- Lost reply: safe to send again; the second call changes no task that is not dead any more, and its event counts
-- only what `told` says.

-- Needs: now, record, place, event, batches, notes, followed, notice
local replayed = 0
for i = 5, #args do
  local id = args[i]
  local task = read(redis.call('HGET', meta, id) or '')
  if task and redis.call('ZREM', dead, id) == 1 then
    local ms = math.min(math.floor(first + spacing * replayed), 3.1536e11) -- no task is due later than in 10 years
    local before = string.match(task.reason, '^task (%S+), which it waited for, died$')
    local waits = before and redis.call('HEXISTS', meta, before) == 1 and not redis.call('ZSCORE', dead, before)
    task.attempts, task.expires, task.reason, task.again = 0, 0, '', 0
    task.options = string.gsub(task.options, '\24(%d+) %d+', '\24%1 0') -- its lapses
    if waits then
      set_note(task, AFTER, (string.find(task.options, FOLLOWED) and '+' or '') .. 'b\1' .. before)
      follow_again(id, task.options)
      redis.call('ZADD', delayed, UNTIL_OPENED, id)
    end
    redis.call('HSET', meta, id, write(task))
    if not waits then
      put_back(id, task, ms, true)
    end
    replayed = replayed + 1
    count_in_batch(string.match(task.options, OF_BATCH), 'dead', 'left')
  end
end
if replayed > 0 then
  redis.pcall('HINCRBY', stats, 'replayed', replayed)
end
if told and told + replayed > 0 then
  tell_change('by_hand', '', string.format('replayed %.0f', told + replayed))
end
admit()
return replayed
