"""Replies of the scripts about limits and groups, as data; and the sentence that `why` returns."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpq.model.limits import EVERY_GROUP, LimitState, read_rules, reason_of
from dpq.model.task import TaskState
from dpq.protocol.values import moment_of, read_texts


def read_limits(
    groups: Sequence[str | None], running: Mapping[str, int], texts: Sequence[str]
) -> list[LimitState]:
    """Read the reply of view; `running` counts the running tasks by group, None is the queue."""
    states = []
    for i, group in enumerate(groups):
        rules, opens, why, rate, left, waiting, _ = texts[7 * i : 7 * i + 7]
        own, _, rules = rules.partition("\t")
        windows, concurrency = read_rules(rules) if rules else ((), None)
        everyone = group == EVERY_GROUP
        closed = why and (not everyone or why == "u")
        rate, _, slack_ms = rate.partition(" ")
        states.append(
            LimitState(
                group=group,
                windows=windows,
                concurrency=concurrency,
                default=own == "groups" and not everyone,
                rate=float(rate) if windows and windows[0].adaptive and not everyone else None,
                slack=0.0 if everyone else float(slack_ms or 0) / 1000,
                units_left=() if everyone else tuple(float(units) for units in left.split()),
                open=not closed,
                opens_at=moment_of(float(opens)) if float(opens) and not everyone else None,
                reason=reason_of(why) if closed else None,
                waiting=0 if everyone else int(waiting),
                in_flight=sum(running.values()) if group is None else running.get(group, 0),
            )
        )
    return states


class Waiting(NamedTuple):
    """The reply of the script why about one task.

    Attributes:
        state: Its state; None if it is in no set, since another program has written into Redis.
        until_ms: The time when a delayed task is due or a lease ends, by the server's clock.
        group: Its group, or "".
        ahead: Ready tasks that come before it, or before the head of its group.
        in_group: Tasks of its group that come before it.
        paused_until: "", "inf", or ms.
        held_until_ms: The time when the limit of the queue has enough units for this task.
    """

    state: TaskState | None
    until_ms: int
    group: str
    ahead: int
    in_group: int
    paused_until: str
    held_until_ms: int = 0


def read_waiting(reply: list[Any]) -> Waiting | None:
    """Read the reply of why; None if nothing is stored under the id."""
    if not reply:
        return None
    state, until, group, ahead, in_group, paused, held = read_texts(reply)
    return Waiting(
        TaskState(state) if state else None,
        int(until),
        group,
        int(ahead),
        int(in_group),
        paused,
        int(held),
    )


def explain(found: Waiting, limits: Sequence[LimitState], now_ms: int) -> str:
    """Say in one sentence why a task is not running; `limits` are the queue's and its group's."""

    def within(moment_ms: float) -> str:
        return f"{max(0.0, (moment_ms - now_ms) / 1000):.1f} s"

    if found.state is None:
        return "it stands nowhere, and nothing would run it: `dpq doctor --repair` mends that"
    if found.state is TaskState.DEAD:
        return "it is in the dead letters, until it is replayed"
    if found.state is TaskState.INVISIBLE:
        return f"it is running: its lease ends in {within(found.until_ms)}"
    if found.state is TaskState.DELAYED:
        return f"it is delayed: due in {within(found.until_ms)}"
    before = []
    if found.in_group:
        before.append(f"{_tasks(found.in_group)} of its group")
    if found.ahead:
        before.append(f"{_tasks(found.ahead, 'other ready' if found.in_group else 'ready')}")
    behind = f"behind {' and '.join(before)}" if before else ""
    if found.paused_until:
        paused = found.paused_until
        reason = "the queue is paused " + (
            "until it is resumed" if paused == "inf" else f"for another {within(int(paused))}"
        )
    else:
        shut = next((limit for limit in reversed(limits) if not limit.open), None)
        if shut is None and not before and found.held_until_ms > now_ms:
            wait = within(found.held_until_ms)
            return f"it waits for units of the queue's limit, for another {wait}"
        if shut is None:
            return f"it is {found.state}: {behind or 'next'}"
        what = "the queue" if shut.group is None else f"its group {shut.group!r}"
        reason = f"{what} is closed ({_CLOSED.get(shut.reason or '') or _spent(shut)})"
        if shut.opens_at:
            reason += f" for another {within(shut.opens_at.timestamp() * 1000)}"
    return f"{reason}, and it is {behind or 'first'} then"


_CLOSED = {
    "rate limited": "a 429",
    "closed by hand": "by hand",
    "unreadable": "its stored limit cannot be read: set it again, or repair the queue",
    "probe": "the first task after a 429 is still running",
    "concurrency": "as many tasks run as may",
}


def _spent(limit: LimitState) -> str:
    """Name the window that opens last, by its unit; and by its length if others have that unit."""
    missing = [
        (1 - left) * window.per / window.rate
        for window, left in zip(limit.windows, limit.units_left, strict=False)
    ]
    if not missing:
        return "its rate is spent"
    window = limit.windows[missing.index(max(missing))]
    units = [other.unit for other in limit.windows]
    name = f" of {window.unit or 'requests'}" if len(units) > 1 or window.unit else ""
    length = f" per {window.per:.15g} s" if units.count(window.unit) > 1 else ""
    return f"its rate{name}{length} is spent"


def _tasks(count: int, kind: str = "") -> str:
    return f"{count} {kind} task{'s' if count > 1 else ''}".replace("  ", " ")
