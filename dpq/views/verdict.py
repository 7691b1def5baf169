"""The verdict on a queue: how it goes, when its backlog is done, and why.

The pages, `dpq top`, the command line and the API show these sentences, and make none of their own.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from dpq import Drain, Verdict, VerdictState
from dpq.views.sampler import Snapshot
from dpq.views.words import LONGEST, until


def say_verdict(snapshot: Snapshot) -> str:
    """Say in a few words when the backlog will be done, by the pace of the last minutes."""
    if snapshot.survey.paused_until:
        return "paused"
    if not snapshot.backlog:
        return "nothing waits"
    if snapshot.pace.kind == "stopped":
        return "held back by limits" if snapshot.survey.closed else "stalled"
    return snapshot.pace.say


def is_unattended(snapshot: Snapshot) -> bool:
    """Return True if tasks wait, and neither a worker nor any other consumer is seen."""
    return bool(
        snapshot.backlog
        and not snapshot.workers
        and not snapshot.stats.invisible
        and snapshot.pace.done == 0
        and not snapshot.a_second("deferred")
    )


def say_state(snapshot: Snapshot, now_ms: float) -> str:
    """Write the verdict for a narrow column; for a paused queue, the rest of the pause."""
    paused = snapshot.survey.paused_until
    if paused.isdecimal():
        return f"paused, {until(float(paused), now_ms)}"
    if is_unattended(snapshot) and not paused:
        return "nobody works"
    return say_verdict(snapshot).removeprefix("about ")


def drain_text(drain: Drain) -> str:
    """Write a drain time: `clears in 35 m (group 'gpt': 10/min)`."""
    when = f" in {drain.about}" if drain.state == "clears" and drain.seconds else ""
    return f"{drain.state}{when}" + ("" if drain.state == "empty" else f" ({drain.because})")


def say_drain(drain: Drain) -> str:
    """Say when all due tasks will have begun, and why then."""
    if drain.state in ("empty", "none due", "even"):
        return drain.because
    if drain.state == "unknown":
        return "no limit says when it is done, and too little was seen to tell"
    if drain.seconds is None:
        return f"{drain.state}: {drain.because}"
    if drain.seconds > LONGEST:
        return f"not before it is opened: {drain.because}"
    return f"all begun in {drain.about}: {drain.because}"


WORST_FIRST = (
    VerdictState.SERVER_AWAY,
    VerdictState.SETTINGS_LOST,
    VerdictState.HANDLERS_BUSY,
    VerdictState.NO_CONSUMER,
    VerdictState.CONCURRENCY,
    VerdictState.QUOTA,
    VerdictState.RATE_LIMITED,
    VerdictState.PACED,
    VerdictState.BY_HAND,
    VerdictState.PAUSED,
    VerdictState.ONLY_DEAD,
    VerdictState.ONLY_DELAYED,
    VerdictState.MOVING,
    VerdictState.EMPTY,
    VerdictState.UNKNOWN_QUEUE,
)
"""The states by how much they cost: faults, then limits, then what a person has wanted, then what
is over."""


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts that need a person, the worst first; of equal states the longest."""
    last = datetime.max.replace(tzinfo=UTC)
    return sorted(
        (each for each in verdicts if each.needs_person),
        key=lambda each: (WORST_FIRST.index(each.state), each.since or last, each.queue),
    )
