-- absent: check that no key of a queue is stored.
--
-- Keys: ready delayed invisible waiting groups closed payload meta dead keys conf stats wake tick limits gates
--       tracked workers batches
--
-- Returns 1 if no key of the queue is stored, else 0.
-- Lost reply: safe to send again.

-- Needs: stored
return anything_stored() and 0 or 1
