-- purge: remove tasks of a state, or the dead letters with these ids.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf wake tick limits gates tracked
--       events changes batches followers cancelled
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  state      ready, delayed, invisible, waiting or dead
-- ARGV[3]  most       number: tasks at most; 0 changes nothing
-- ARGV[4]  told       number: tasks that earlier steps of the same action have removed: the event counts them, too; ""
--                     if a later step tells of this one
-- ARGV[5..]            ids: only these tasks
--
-- Returns how many tasks it removed; call again until it returns 0. The holder of a running task hears that it was
-- cancelled.
-- Lost reply: safe to send again; without ids the second call removes the next tasks.

-- Needs: now, record, place, fence, order, event, batches, followed, notes, producers, trim
local set = ({ ready = ready, delayed = delayed, invisible = invisible, waiting = waiting, dead = dead })[state]
local members, removed, vacated = {}, 0, { [''] = true }
for i = 5, #args do
  members[#members + 1] = redis.call('ZSCORE', set, args[i]) and args[i] or nil
end
if #args < 5 and most > 0 then
  members = redis.call('ZRANGE', set, 0, most - 1)
end
for _, member in ipairs(members) do
  local id = split(set, member)
  local task = read(redis.call('HGET', meta, id) or '')
  if task then
    if set == invisible then
      note_cancelled(id, task)
    end
    leave(id, task)
    vacated[task.group] = true
    count_in_batch(state ~= 'dead' and string.match(task.options, OF_BATCH), 'left', 'removed')
    end_followed(id, task.options, 'cancelled')
    unfollow(id, task.options)
  end
  redis.call('ZREM', set, member)
  forget(id, task)
  removed = removed + 1
end
if told and told + removed > 0 then
  tell_change('by_hand', '', string.format('purged %.0f %s', told + removed, state))
end
admit()
call_all(vacated)
return removed
