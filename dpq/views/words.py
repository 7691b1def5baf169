"""Short texts about a queue for screens, safe for a terminal whatever is stored."""

import getpass
import os
import socket

from dpq.model.display import shown
from dpq.model.rates import span
from dpq.model.validation import label
from dpq.types import BatchState, Verdict


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


def until(at_ms: float | None, now_ms: float) -> str:
    """Write how long it is until a moment: `12 s`, `now` when it has come."""
    if at_ms is None:
        return "-"
    return span((at_ms - now_ms) / 1000) if at_ms - now_ms >= 1000 else "now"


def cut(name: str, most: int = 30) -> str:
    """Leave out the middle of a long name: hosts begin and end differently."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[1 - most // 2 :]}"


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
