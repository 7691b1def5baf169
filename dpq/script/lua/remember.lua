-- remember: store what the queue counts and holds, if no other call has done so in this minute.
--
-- Keys: ready delayed invisible waiting closed meta dead conf stats limits gates workers history
-- ARGV[1]  time       ms, or "" for the server's clock
--
-- Returns 1 if it has stored the slot of this minute; 0 if the slot stands already, or conf does not exist.
-- Lost reply: safe to send again; the second call finds the slot.

-- Needs: now, remember
if redis.call('EXISTS', conf) == 0 then
  return 0
end
return remember()
