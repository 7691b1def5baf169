"""The verdict on a queue, drawn: its words are made in `dpq.explain.verdict`, and nowhere else."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from dpq.explain.pace import UNKNOWN, Pace
from dpq.types import Drain, Verdict, VerdictState
from dpq.views.sampler import Snapshot
from dpq.views.words import LONGEST, until

Severity = Literal["bad", "warn", "good", "soft"]

_MILD: dict[VerdictState, Severity] = {
    VerdictState.MOVING: "good",
    VerdictState.EMPTY: "soft",
    VerdictState.ONLY_DELAYED: "soft",
    VerdictState.PACED: "soft",
}
"""The states in which nothing is wrong."""


def severity(verdict: Verdict, pace: Pace = UNKNOWN) -> Severity:
    """Return how serious a verdict is: `bad` if it does not go on without a person."""
    if verdict.state is VerdictState.MOVING and pace.kind == "grows":
        return "warn"
    return "bad" if verdict.needs_person else _MILD.get(verdict.state, "warn")


def say_state(snapshot: Snapshot, now_ms: float) -> str:
    """Write the verdict for a narrow column: its state, with the pace, or how long it lasts."""
    verdict = snapshot.verdict
    if verdict.state is VerdictState.MOVING and snapshot.backlog and snapshot.pace.done:
        return snapshot.pace.say
    if verdict.state is VerdictState.PAUSED and verdict.until:
        return f"paused, {until(verdict.until.timestamp() * 1000, now_ms)}"
    return verdict.state.value


def say_drain(drain: Drain) -> str:
    """Say when all due tasks will have begun, and why then: `all begun in 3 h: group 'a': 1/s`."""
    if drain.state in ("empty", "none due"):
        return drain.because
    if drain.state == "unknown":
        return "no limit says when it is done, and too little was seen to tell"
    if drain.seconds is None:
        return f"{drain.state}: {drain.because}"
    return say_begun(drain, drain.seconds, drain.about)


def say_begun(drain: Drain, seconds: float, about: str) -> str:
    """Say that all due tasks will have begun in a time, or not before a user opens their group."""
    late = seconds > LONGEST
    return f"{'not before it is opened' if late else f'all begun in {about}'}: {drain.because}"


WORST_FIRST = (
    VerdictState.SERVER_AWAY,
    VerdictState.SERVER_REFUSES,
    VerdictState.UNREADABLE,
    VerdictState.HANDLERS_BUSY,
    VerdictState.NO_CONSUMER,
    VerdictState.FAILING,
    VerdictState.CONCURRENCY,
    VerdictState.QUOTA,
    VerdictState.RATE_LIMITED,
    VerdictState.PACED,
    VerdictState.BY_HAND,
    VerdictState.ALL_QUIET,
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
