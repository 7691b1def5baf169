-- _return: a task that has left comes back, now or in `ms`; the script answers 1.
-- Wants: id, task, ms; admit (_place); back (_back).
back(id, task, ms)
admit()
return 1
