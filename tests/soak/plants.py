"""Faults that a soak must find: `python -m soak --plant NAME` runs with one of them.

Each names the kinds of findings of which one at least must be there. They are faults of time,
attempts, wake-ups, order, limits and conservation, one or more of each.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import Change, copy_project, read_changes

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Plant(Change):
    """A fault, and the kinds of findings that it must lead to, of which one will do."""

    finds: tuple[str, ...]


LISTED = r"""
# Time
add_full | delays halved | too early
- '%.0f', now + wait)
+ '%.0f', now + wait / 2)
fail.lua | a failed task comes back at once | too early
- tonumber(ARGV[4])
+ 0
extend | leases are not extended | redelivered without a reason, a late ack was taken, lost
-   redis.call('ZADD', invisible, now + ms, id)

# Attempts
fail.lua | failures do not count | attempts counted wrong
- task.attempts = task.attempts + 1
+ task.attempts = task.attempts
upkeep | the ends of leases do not count | attempts counted wrong
- task.attempts = task.attempts + 1
+ task.attempts = task.attempts
set_visibility.lua | deferrals do not count | deferrals counted wrong
- task.deferrals + 1
+ task.deferrals
fail.lua | a task dies one attempt early | dead too soon
- >= tonumber(task.max)
+ >= tonumber(task.max) - 1

# Wake-ups
rouse | pushes wake nobody | too late
-     redis.call('ZADD', wake, '0', 'w')
watch | nobody watches for what is due | too late
-     redis.call('ZADD', wake, moment, 'e')

# Order, limits
enter | a better newcomer waits behind its group's head | out of order
- best and (score < best or score == best and member < first)
+ false
take | the worst comes first | out of order
- 'ZPOPMIN'
+ 'ZPOPMAX'
pay_window | a task of any cost pays for one | over the limit
- + time_of(units, window)
+ + time_of(1, window)
full | one lease too many | over the concurrency
- return most <= out
+ return most < out

# Conservation
ack.lua | any token acks | a late ack was taken, finished twice, lost
- token ~= claim and token ~= string.match(claim, '^%d+')
+ not token
upkeep | a lease that ends takes its task with it | lost
-         enter(id, task)
-         records[
+         records[
"""

PLANTS = [Plant(**change, finds=tuple(rest.split(", "))) for change, rest in read_changes(LISTED)]


def run_planted(name: str, arguments: Sequence[str]) -> int:
    """Run a soak on a copy of the package that has a fault; the soak's exit status.

    Args:
        name: Of the fault.
        arguments: Of the soak.
    """
    plant = {plant.name: plant for plant in PLANTS}[name]
    with tempfile.TemporaryDirectory(prefix="dpq-plant-") as directory:
        copy_project(Path(directory), "dpq")
        plant.plant(Path(directory))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([directory, str(TESTS)])}
        return subprocess.run(
            [sys.executable, "-m", "soak", *arguments], cwd=directory, env=environment
        ).returncode
