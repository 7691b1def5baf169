"""What does `from dpq import DPQ, Worker` cost a program, against `import redis` alone, and RQ?

Each program is a new interpreter that tells its own processor time and its most memory. Slices of
all programs alternate, and the least of each counts: what is above it is other work of the machine.
Modules are compiled before. OpenTelemetry is hidden: redis-py imports it where it is installed, and
it is not in a plain one. RQ is that of `python -m benchmarks.peers --only rq --install`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks._harness import REPOSITORY, ROUNDS, Bench, Result, Target, run_one
from benchmarks.peers.environments import python_of

SLICES = 6  # runs of each program in a round; the first round is not counted

PROGRAM = """
import json, sys, time
sys.modules["opentelemetry"] = None
began = time.process_time()
{statement}
spent = time.process_time() - began
try:
    with open("/proc/self/status") as status:
        (most,) = [line.split()[1] for line in status if line.startswith("VmHWM:")]
except OSError:
    import resource
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # of macOS in bytes
    most /= 1024 if sys.platform == "darwin" else 1
print(json.dumps([spent * 1000, float(most) / 1024]))
"""

REDIS = "import redis"
OURS = "from dpq import DPQ, Worker"
FIRST = f"{REDIS}; {OURS}; DPQ(redis.Redis(), 'first')"
RQ = "from rq import Queue, Worker"


class Cost(NamedTuple):
    """What a program has taken until its statement is done."""

    ms: float
    mib: float


def cost_of(python: str, statement: str) -> Cost:
    """Run a program in a new interpreter."""
    known = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-c", PROGRAM.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env=known,
    )
    return Cost(*json.loads(done.stdout))


def least(programs: dict[str, str]) -> dict[str, Cost]:
    """Run programs in turn, some times; the least time and memory of each statement."""
    runs: dict[str, list[Cost]] = {statement: [] for statement in programs}
    for _ in range(SLICES):
        for statement, python in programs.items():
            runs[statement].append(cost_of(python, statement))
    return {
        statement: Cost(min(run.ms for run in some), min(run.mib for run in some))
        for statement, some in runs.items()
    }


def has_rq(python: Path) -> bool:
    """Return True if the peers' Python is there, and has RQ."""
    if not python.exists():
        return False
    asked = subprocess.run([python, "-c", "import rq"], capture_output=True, check=False)
    return not asked.returncode


def measure(_: Bench) -> Iterator[Result]:
    programs = dict.fromkeys((REDIS, OURS, FIRST), sys.executable)
    peers = python_of("rq")
    if has_rq(peers):
        programs[RQ] = str(peers)
    rounds = [least(programs) for _ in range(ROUNDS + 1)][1:]
    bounds = {OURS: (1.0, 1.0)}
    for statement in (each for each in programs if each != REDIS):
        for at, (field, unit) in enumerate((("processor time", "ms"), ("most memory", "MiB"))):
            samples = [costs[statement][at] / costs[REDIS][at] for costs in rounds]
            mine, redis = (min(costs[each][at] for costs in rounds) for each in (statement, REDIS))
            target = Target("at most", bounds[statement][at]) if statement in bounds else None
            name = f"{field} of `{statement}` / `{REDIS}`"
            yield Result(name, "x", target, samples, f"{mine:.3g} {unit}, {redis:.3g} {unit}")
    if RQ not in programs:
        yield Result("RQ: not installed", "", None, [0])


if __name__ == "__main__":
    run_one("imports")
