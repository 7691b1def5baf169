"""The sentence that `why(id)` returns: what keeps one task from running. No I/O."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq.explain.incidents import PACED, REASONS
from dpq.limits.limits import RateLimit, quota_text
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.states import LimitState, MemberState, last_to_open, spent_quota, spent_words
from dpq.limits.words import rate_text
from dpq.model.rates import many, span
from dpq.model.task import TaskState
from dpq.script.replies import read_batch_state
from dpq.script.values import read_fields, read_texts


class Waiting(NamedTuple):
    """The reply of the script why about one task, in its order."""

    state: str  # "" if it is in no set: another program has written into Redis
    until_ms: int  # when a delayed task is due or a lease ends, by the server's clock
    group: str
    ahead: int  # ready tasks that come before it, or before the head of its group
    in_group: int  # tasks of its group that come before it
    paused_until: str  # "", "inf", or ms
    held_until_ms: int  # when the limit of the queue has enough units for this task
    pinned: str  # the member that its push named, or ""
    batch: str  # the batch that it waits for
    batch_text: str
    after: str  # the ids of the tasks that it waits for, each behind a \x01
    about_ms: int  # when the limits let it start after all before it; 0 for never
    more: bool  # tasks of other groups, behind their heads, may come before it, too


def read_waiting(reply: list[Any]) -> Waiting | None:
    """Read the reply of why; None if nothing is stored under the id."""
    return Waiting(*read_fields(Waiting, read_texts(reply))) if reply else None


def explain(
    found: Waiting, limits: Sequence[LimitState], now_ms: int, unattended: str = ""
) -> tuple[str, float | None]:
    """Say in one sentence why a task is not running, and when that changes, ms, if it is known."""

    def within(moment_ms: float) -> str:
        return f"{max(0.0, (moment_ms - now_ms) / 1000):.1f} s"

    def soon(said_ms: float) -> str:
        if found.about_ms < said_ms + 1000:
            return ""
        least = found.more and (limits[0].windows or limits[0].quotas)
        about = "at least" if least or any(each.concurrency for each in limits) else "about"
        return f", so it may run after {about} {span(round((found.about_ms - now_ms) / 1000))}"

    def then(what: str, until_ms: float | None) -> tuple[str, float | None]:
        place = f"and it is {behind or 'first'} then{soon(until_ms or math.inf)}"
        return f"{what}, {place}{nobody}", until_ms

    paused = float(found.paused_until or 0)  # inf: until it is resumed
    paused_until = None if paused == math.inf else paused
    pause = f"paused for another {within(paused)}" if paused_until else "paused until it is resumed"
    if not found.state:
        return "it stands nowhere, and nothing would run it: see `dpq doctor`", None
    if found.state == TaskState.DEAD:
        return "it is in the dead letters, until it is replayed", None
    if found.state == TaskState.INVISIBLE:
        return f"it is running: its lease ends in {within(found.until_ms)}", found.until_ms
    if found.state == TaskState.DELAYED:
        if found.batch or found.until_ms >= UNTIL_OPENED_MS:
            return _waits_for(found), None
        due = f"it is delayed: due in {within(found.until_ms)}"
        if paused > found.until_ms:
            return f"{due}, but the queue is {pause}", paused_until
        return due, found.until_ms
    before = []
    if found.in_group:
        before.append(f"{many(found.in_group, 'task')} of its group")
    if found.ahead:
        others = many(found.ahead, "other ready task" if found.in_group else "ready task")
        before.append("at least " * found.more + others)
    behind = f"behind {' and '.join(before)}" if before else ""
    nobody = f", but nobody takes it: {unattended}" if unattended else ""
    if paused:
        return then(f"the queue is {pause}", paused_until)
    shut: LimitState | MemberState | None
    shut = next((limit for limit in reversed(limits) if not limit.open), None)
    pool = limits[-1].members if found.pinned else ()
    member = next((m for m in pool if m.name == found.pinned), None)
    if pool and member is None:
        only = f"it runs only as {found.pinned!r}, which is no member of its group's pool"
        return then(f"{only}: it waits until set_limit names that member", None)
    if member and not member.open and (shut is None or shut.group is not None):
        shut = member
    if shut is None:
        place = behind and f" {behind}" if nobody else f": {behind or 'next'}"
        said = f"it is {found.state}{place}{soon(now_ms)}"
        if not before and found.held_until_ms > now_ms:
            wait = within(found.held_until_ms)
            said = f"it waits for units of the queue's limit, for another {wait}"
        return said + nobody, found.held_until_ms or None
    if isinstance(shut, MemberState):
        what, windows = f"it runs only as {shut.name!r}, which", limits[-1].windows
    else:
        windows = shut.windows
        what = "the queue" if shut.group is None else f"its group {shut.group!r}"
    opens = shut.opens_at.timestamp() * 1000 if shut.opens_at else None
    until = f" for another {within(opens)}" if opens else ""
    if not opens and shut.reason == "closed by hand":
        until = " until it is opened"
    why = REASONS.get(shut.reason or "", PACED)[1]
    return then(f"{what} is closed ({spent(shut, windows) or why}){until}", opens)


def _waits_for(found: Waiting) -> str:
    """Say which tasks must end before a task can be due."""
    after = found.after.split("\x01")[1:]
    if batch := read_batch_state(found.batch, found.batch_text):
        of = f"of its {many(batch.pushed, 'task')}"
        left = many(batch.left, f"{of} is left", f"{of} are left")
        return f"it waits for the end of batch {batch.name!r}: {left}"
    if not after:
        return "it waits for a batch that is not stored: see `dpq doctor`"
    ends = "the end of task" if len(after) == 1 else f"{len(after)} tasks to end:"
    return f"it waits for {ends} {', '.join(after)}"


def spent(state: LimitState | MemberState, windows: Sequence[RateLimit]) -> str:
    """Name the window or the quota that lets no task run: `10/s is spent`; "" if none is."""
    if not state.open and state.reason == "spent":
        last = last_to_open(windows, state.units_left)
        return f"{rate_text(last[0])} {spent_words(last[1])}" if last else "spent"
    closed_by = None if state.open else spent_quota(state)
    return f"{quota_text(closed_by.quota)} {spent_words(closed_by.left)}" if closed_by else ""
