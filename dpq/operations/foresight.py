"""The operations that look ahead: forecast and drain. `QueueOperations` calls them. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpq.model.drain import DrainLook, Paper
from dpq.model.forecast import MAX_FORECAST, PREVIEW_CHARACTERS, Forecast
from dpq.model.forecasting import Forecasting, merged
from dpq.model.limit_rules import LimitRules
from dpq.model.validation import milliseconds, whole_number
from dpq.operations.description import Description
from dpq.operations.limits import limit_field
from dpq.protocol.command import Steps, all_of
from dpq.protocol.foresight import read_drain, read_view

if TYPE_CHECKING:
    from dpq.operations.partition import Partition

MORE = 20
"""Heads, delayed tasks, leases and closed groups that are read beyond the tasks of a forecast:
some of them give way."""

BEHIND = 700
"""Waiting tasks in one read of a forecast, of all groups together. Source: docs/design.md,
"Forecast"."""

PREVIEW_BYTES = 4 * PREVIEW_CHARACTERS

NAMED, LARGEST, LAST_TO_OPEN = 50, 50, 20
"""Numbers of groups from which a drain time is computed: groups with a limit of their own, the
largest groups, and the closed groups that open last."""


def forecast(
    queue: Description[Any], parts: Sequence[Partition[Any]], n: int, run: float | None
) -> Steps[list[Forecast]]:
    """Foresee the next starts of all partitions."""
    count = whole_number("n", n, 1, MAX_FORECAST)
    run_ms = None if run is None else milliseconds("run", run)
    args = [count + MORE, BEHIND, PREVIEW_BYTES]
    views = yield from all_of([part.report("forecast", args, read_view) for part in parts])
    grain = 1.0 if queue.clock else 0.001  # a given clock counts ms; the server's clock counts us
    lease_ms = queue.visibility_ms
    found = [
        Forecasting(view, grain=grain, run_ms=run_ms, lease_ms=lease_ms).run(count)
        for view in views
    ]
    starts = merged(found, count)
    if views[0].family:  # the other queues may take what these tasks wait for
        starts = [each.model_copy(update={"exact": False}) for each in starts]
    return starts


def drain_look(parts: Sequence[Partition[Any]], *supposed: str) -> Steps[list[DrainLook]]:
    """Read what the drain time of each partition depends on.

    Args:
        parts: The partitions.
        supposed: Nothing; or a field of limits that is counted in any case; or that and its rules,
            as if they were set.
    """
    args: list[int | str] = [NAMED, LARGEST, LAST_TO_OPEN, *supposed]
    looks = yield from all_of([part.report("drain", args, read_drain) for part in parts])
    parts[0].belong(looks[0].family)
    if kin := parts[0].report_of_kin("drain", args, read_drain):
        looks[0] = looks[0]._replace(others=(yield from all_of(kin)))
    return looks


def limit_on_paper(
    parts: Sequence[Partition[Any]], group: str | None, rules: LimitRules | None
) -> Steps[Paper]:
    """Read what stands of a limit, and look at the drain as it is and with other rules, or none.

    Args:
        parts: The partitions that store the limit.
        group: A group, `"*"` for every group, or None for the queue.
        rules: The rules, or None.
    """
    stands, every = yield from parts[0].standing(group)
    field = limit_field(group)
    now = yield from drain_look(parts, field)
    text = rules.text(int(now[0].now)) if rules else ""
    return Paper(stands, every, now, (yield from drain_look(parts, field, text)))
