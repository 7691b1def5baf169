"""The scheduler daemon: makes due tasks ready and takes expired leases back while no consumer pops.

`dpq admin scheduler` and `delayed_tasks_scheduler.py` run it. A pop does the same upkeep, so a
daemon is useful but not needed: it keeps the counts right, and wakes waiting consumers while no
consumer pops. Any number of daemons may run at once, since the scripts decide what is right. It
must not hold a lock or a task.

Each queue has a moment for its next step; its marker may make it earlier. On one server a glance
reads the moments of many queues in one call, so a queue without work costs next to nothing. The
cost of each queue is bounded. The list of names is read in parts, and loses names without a queue.
Markers wake the daemon at most a hundred times a second.

    daemon        rounds, and the sleep between them
    upkeep        steps of the queues that are due, and glances at all
    names         walks over the list of names
    connections   one try for each server that is away; the markers that wake the daemon
"""

from dpq.scheduler.daemon import Scheduler, run_daemon

__all__ = ["Scheduler", "run_daemon"]
