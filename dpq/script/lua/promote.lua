-- promote: do a bounded step of upkeep. It makes due tasks ready, and removes dead letters, batches and seen keys over
-- their caps.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers history events batches followers recent
-- ARGV[1]  time       ms, or "" for the server's clock
-- ARGV[2]  batch      number: steps at most
--
-- Returns {moved, ms until the next event or -1}; call again while `moved` reaches `batch`. If it has removed gates,
-- their number follows; more gates may remain to be removed. {0, -2}: no data of the queue is stored, and markers that
-- stood alone are removed.
-- Lost reply: safe to send again; the second call moves what is due then.

-- Needs: now, refusal, go_on, trim, batch_list, moments, prune, upkeep, remember
local refused, format = refusal(redis.call('HGET', conf, 'format'))
if refused then
  return refused
elseif not format then
  -- Needs: stored
  if only_markers() then
    return { 0, -2 }
  end
end
go_on()
local moved, pruned = upkeep(batch), 0
if redis.call('EXISTS', gates) == 1 then
  pruned = prune(20)
end
moved = math.max(moved, trim(batch))
if moved > 0 then
  -- Needs: producers
  call_producers('')
end
if redis.call('EXISTS', recent) == 1 then
  -- Needs: seen
  moved = math.max(moved, prune_seen(batch))
end
if redis.call('EXISTS', batches) == 1 then
  prune_batches(batch)
end
local event = next_event()
remember()
return { moved, event and math.max(math.ceil(event - now), 0) or -1, pruned > 0 and pruned or nil }
