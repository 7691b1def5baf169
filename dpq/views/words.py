"""Short texts about a queue for screens, safe for a terminal whatever is stored."""

import getpass
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from cronsim import CronSim

from dpq.explain.incidents import LEAST_URGENT
from dpq.model.display import shown
from dpq.model.rates import span
from dpq.model.validation import label
from dpq.types import BatchState, Drain, Verdict, VerdictState


def number(value: float | None) -> str:
    """Write a number with thin spaces between thousands."""
    if value is None:
        return "–"  # noqa: RUF001
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return text.replace(",", "\u202f")


def batch_counts(batch: BatchState) -> str:
    """Say what has become of the tasks of a batch: `3 left of 10: 6 done, 1 dead; sealed`."""
    ends = [f"{number(batch.done)} done"]
    ends += [f"{number(batch.dead)} dead"] * bool(batch.dead)
    ends += [f"{number(batch.removed)} removed"] * bool(batch.removed)
    state = "finished" if batch.finished else "sealed" if batch.sealed else "open"
    return f"{number(batch.left)} left of {number(batch.pushed)}: {', '.join(ends)}; {state}"


def batch_left(batch: BatchState, now_ms: float) -> str:
    """Say how long a batch takes at its pace so far: `about 3 m left`; "" if nothing tells."""
    ended = batch.pushed - batch.left
    if batch.finished or not ended or not batch.left:
        return ""
    seconds = now_ms / 1000 - batch.began_at.timestamp()
    return f"about {span(seconds * batch.left / ended)} left"


def this_user(program: str) -> str:
    """Name the user, host and program that change a queue, for its events."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user of the process has no name
        user = str(os.getpid())
    return label("by", f"{user[:50]}@{socket.gethostname()[:80]} ({program})")


def verdict(said: Verdict) -> str:
    """Write a verdict on a line of its own, and what to do on the next one."""
    return shown(str(said)) + (f"\n{shown(said.what_to_do)}" if said.what_to_do else "")


def verdict_data(said: Verdict) -> dict[str, Any]:
    """Write a verdict as data, with its sentence."""
    return {"sentence": str(said), **said.model_dump(mode="json")}


def say_state(verdict: Verdict, now_ms: float) -> str:
    """Write the verdict for a narrow column: its state, or when it is done or over."""
    drain = verdict.drain
    if verdict.state is VerdictState.MOVING and drain and drain.backlog:
        return verdict.state.value if drain.state == "unknown" else drain.say
    if verdict.state is VerdictState.PAUSED and verdict.until:
        left = verdict.until.timestamp() - now_ms / 1000
        return f"paused, {span(left) if left >= 1 else 'now'}"
    return verdict.state.value


def say_drain(drain: Drain) -> str:
    """Say when all due tasks will have begun, and why then: `all begun in 3 h: group 'a': 1/s`."""
    if drain.state in ("empty", "none due", "unknown"):
        return drain.because
    return f"{drain.say if drain.state == 'clears' else drain.state}: {drain.because}"


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts that need attention, then those with warnings: the longest first."""
    states = [*(each for each in VerdictState if each not in LEAST_URGENT), *LEAST_URGENT]

    def urgency(each: Verdict) -> Any:
        since = each.since.timestamp() if each.since else math.inf
        return not each.needs_person, states.index(each.state), since, each.queue

    return sorted((each for each in verdicts if each.needs_person or each.warnings), key=urgency)


ORDERED_SECONDS = 60.0
"""Seconds for which queues keep their places on a page: a button must not move under a finger."""


class Places:
    """The order of the queues that need attention: new ones come last; once a minute, anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._until = clock, 0.0
        self._names: dict[str, None] = {}  # made anew at each change: requests come at once

    def order(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        """Return the verdicts that need attention, each at the place of its queue."""
        found, now = {each.queue: each for each in worst_first(verdicts)}, self._clock()
        if now >= self._until:
            self._names, self._until = {}, now + ORDERED_SECONDS
        names = self._names = self._names | dict.fromkeys(found)
        return [found[name] for name in names if name in found]


_WEEKDAYS = re.compile("(?<!it's )on Monday through Friday$")
"""The words of CronSim for each weekday; not where they narrow another day down."""


def say_schedule(every: float | None, cron: str | None) -> str:
    """Write a schedule in words: `every 1 m 30 s`, `at 09:00 every weekday (Europe/Berlin)`."""
    if cron is None:
        return f"every {span(every)}" if every else ""
    fields, _, timezone = cron.rpartition(" ")
    try:
        words = CronSim(fields, datetime(2000, 1, 1, tzinfo=UTC)).explain()
    except Exception:  # another program has written it, or CronSim has no words
        return cron
    words = _WEEKDAYS.sub("every weekday", words)
    return f"{words[:1].lower()}{words[1:]} ({timezone})"
