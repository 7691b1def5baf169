"""Faults that a soak must find: `python -m soak --plant NAME` runs with one of them.

Each names the kinds of findings of which one at least must be there. They are faults of time,
attempts, wake-ups, order, limits, partitions and conservation, one or more of each.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import Change, copy_project

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Plant(Change):
    """A fault, and the kinds of findings that it must lead to, of which one will do."""

    finds: tuple[str, ...]


def _lua(name: str, script: str, old: str, new: str, *finds: str) -> Plant:
    return Plant(name=name, file=f"dpq/protocol/lua/{script}.lua", old=old, new=new, finds=finds)


EARLY, LATE, COUNT = "too early", "too late", "attempts counted wrong"
MS = "tonumber(ARGV[4])"

PLANTS = [
    # Time
    _lua("delays halved", "push/fresh", "'%.0f', now + wait)", "'%.0f', now + wait / 2)", EARLY),
    _lua("delays doubled", "push/fresh", "'%.0f', now + wait)", "'%.0f', now + 2 * wait)", LATE),
    _lua("set_visibility halved", "set_visibility", MS, f"{MS} / 2", EARLY),
    _lua("set_visibility doubled", "set_visibility", MS, f"{MS} * 2 + 1000", LATE),
    _lua("delays of release halved", "release", MS, f"{MS} / 2", EARLY),
    _lua("a failed task comes back at once", "fail", MS, "0", EARLY),
    _lua("a 429 closes for half of its time", "rate_limited", MS, f"{MS} / 2",
         "handed out though closed", EARLY),
    _lua("leases are half as long as they say", "pop/lease", "'%d', now + visibility)",
         "'%d', now + visibility / 2)", EARLY),
    _lua("leases are not extended", "extend", "  redis.call('ZADD', invisible, now + ms, id)\n", "",
         "redelivered without a reason", "a late ack was taken", "lost"),
    # Attempts
    _lua("failures do not count", "fail", "task.attempts = task.attempts + 1",
         "task.attempts = task.attempts", COUNT),
    _lua("the ends of leases do not count", "lib/upkeep", "task.attempts = task.attempts + 1",
         "task.attempts = task.attempts", COUNT),
    _lua("a release counts as a failure", "release", "task.delivery = 'r'\n",
         "task.delivery = 'r'\ntask.attempts = task.attempts + 1\n", COUNT),
    _lua("set_visibility counts as a failure", "set_visibility", "  task.deferrals =",
         "  task.attempts = task.attempts + 1\n  task.deferrals =", COUNT),
    _lua("deferrals do not count", "set_visibility", "task.deferrals + 1", "task.deferrals",
         "deferrals counted wrong"),
    _lua("a task dies one attempt early", "fail", ">= tonumber(task.max)",
         ">= tonumber(task.max) - 1", "dead too soon"),
    _lua("a task has one attempt too many", "fail", ">= tonumber(task.max)", "> tonumber(task.max)",
         "tried too often"),
    # Wake-ups
    _lua("pushes wake nobody", "push", "  redis.call('ZADD', wake, '0', 'w')\nelseif", "elseif",
         LATE),
    _lua("nobody is told of a delayed push", "push",
         "    notice(redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2] - now)\n", "", LATE),
    _lua("nobody watches for what is due", "lib/notice",
         "    redis.call('ZADD', wake, moment, 'e')\n", "", LATE),
    # Order, limits
    _lua("what a double loses is lost", "push/fresh", "local order = residual ..",
         "local order = '1' ..", "out of order"),
    _lua("a better newcomer waits behind its group's head", "lib/groups/place",
         "best and (score < best or score == best and member < first)", "false", "out of order"),
    _lua("the worst comes first", "pop/take", "'ZPOPMIN'", "'ZPOPMAX'", "out of order"),
    _lua("a task of any cost pays for one", "pop/charge", "+ time_of(units, window)",
         "+ time_of(1, window)", "over the limit"),
    _lua("one lease too many", "lib/limits/gate", "return most <= out", "return most < out",
         "over the concurrency"),
    # Conservation
    _lua("any token acks", "ack", "token ~= claim and token ~= string.match(claim, '^%d+')",
         "not token", "a late ack was taken", "finished twice", "lost"),
    _lua("a lease that ends takes its task with it", "lib/upkeep",
         "        enter(id, task)\n        records[", "        records[", "lost"),
    # Partitions
    Plant(
        name="a group is in all partitions",
        file="dpq/protocol/placement.py",
        old="return None if name is None else zlib.crc32(name.encode()) % count",
        new="return None",
        finds=("over the limit", "over the concurrency"),
    ),
]  # fmt: skip


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
