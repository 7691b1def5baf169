"""The changes of a queue in the last day, and the parts of its attempts that failed in an hour.

Pages show it beside the verdict. The events of operators stand in a ring of their own, so that no
storm of failures pushes them out. No I/O, no clock.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from dpq.model.reports import WorkerInfo
from dpq.types import Event
from dpq.views.charts import DAY_MS
from dpq.views.event_text import event_text

HOUR_MS = 3_600_000

SHOWN = 5
"""Changes, and parts of failures, in one list."""


class Change(NamedTuple):
    """A change of a queue: its time, its words, and its event, which may be undone."""

    at: datetime
    words: str
    event: Event | None = None


def _is_since(at: datetime, ms: float) -> bool:
    return at.timestamp() * 1000 >= ms


def changes(events: Sequence[Event], workers: Sequence[WorkerInfo], now_ms: float) -> list[Change]:
    """List what operators did in the last day, and which workers began: the newest first."""
    found = [
        Change(event.at, _words(event), event)
        for event in events
        if _is_since(event.at, now_ms - DAY_MS)
    ]
    began: dict[str, list[datetime]] = {}
    for worker in workers:
        if _is_since(worker.since, now_ms - DAY_MS):
            version = f"version {worker.program}, " * bool(worker.program)
            began.setdefault(f"{version}DPQ {worker.version}", []).append(worker.since)
    for versions, times in began.items():
        said = f"{len(times)} of {len(workers)} workers began, with {versions}"
        found.append(Change(max(times), said))
    return sorted(found, key=lambda each: each.at, reverse=True)


def _words(event: Event) -> str:
    scope = {"": "", "*": " of every group"}.get(event.group, f" of group {event.group!r}")
    said = event_text(event)
    return f"{said.kind}{scope}: {said.detail}" if said.detail else said.kind + scope


def failures(events: Sequence[Event], now_ms: float) -> dict[str, list[tuple[str, int]]]:
    """Count the failed attempts of the last hour by error, worker, group and member, those with
    most of them first; {} if there are none."""
    late = [event for event in events if _is_since(event.at, now_ms - HOUR_MS)]
    parts = {
        "error": Counter(event.detail or event.kind for event in late),
        "worker": Counter(event.worker or "not told" for event in late),
        "group": Counter(event.group or "none" for event in late),
        "member": Counter(f"{event.group}: {event.member}" for event in late if event.member),
    }
    return {name: counts.most_common(SHOWN) for name, counts in parts.items() if counts}
