"""The workers of queues for screens: their longest runs beside the usual ones, and what hangs.

The dashboard, its API and `dpq workers` draw them. No I/O.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq.explain.survey import Overview
from dpq.explain.verdict_facts import LATE_SECONDS, hangs
from dpq.model.reports import WorkerInfo
from dpq.views.sampler import Snapshot


class Working(NamedTuple):
    """One run of a worker, with all queues that it serves."""

    info: WorkerInfo  # of the queue with its longest run, but its last heartbeat anywhere
    queues: list[str]  # their names
    running: int  # its handlers that run, on tasks of all of them
    holds: int  # the tasks that it holds
    p99: float | None  # seconds within which 99 of 100 runs of that queue end, once one has
    late: bool  # it has sent no heartbeat for too long
    hangs: bool  # its longest run is far longer than others
    quiet: list[str]  # the names of the queues of which it is to take no new tasks


def say_quiet(quiet: Sequence[str], queues: Sequence[str]) -> str:
    """Say of which of its queues a worker takes no new tasks: `quiet`, or `quiet in a, b`."""
    if not quiet:
        return ""
    return "quiet" if len(quiet) == len(queues) else f"quiet in {', '.join(sorted(quiet))}"


def working(seen: Sequence[Snapshot | Overview]) -> list[Working]:
    """Join the heartbeats of queues by worker: those that hang or are late come first."""
    by_id: dict[str, list[tuple[WorkerInfo, Snapshot | Overview]]] = {}
    for queue in seen:
        for info in queue.workers:
            by_id.setdefault(info.id, []).append((info, queue))
    found = []
    for few in by_id.values():
        info, queue = max(few, key=lambda pair: pair[0].longest_seconds or 0.0)
        last = max((each for each, _ in few), key=lambda each: each.seen)
        beat = {"seen": last.seen, "seen_seconds": last.seen_seconds}
        run = queue.stats.run
        found.append(
            Working(
                info.model_copy(update=beat),
                sorted(each.queue for each, _ in few),
                sum(each.running for each, _ in few),
                sum(each.holds for each, _ in few),
                run.p99 if run else None,
                last.seen_seconds > LATE_SECONDS,
                any(hangs(queue.stats, each.longest_seconds or 0.0) for each, queue in few),
                sorted(each.queue for each, _ in few if each.quiet_since),
            )
        )

    def urgency(each: Working) -> Any:
        return not each.hangs, not each.late, -(each.info.longest_seconds or 0.0), each.info.name

    return sorted(found, key=urgency)
