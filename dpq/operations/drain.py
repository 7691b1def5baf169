"""The operations about the drain time: when all due tasks will have begun. No I/O."""

import math
from collections.abc import Sequence
from typing import Any

from dpq.model.drain import DrainLook, Paper, Scope
from dpq.model.limit_rules import LimitRules
from dpq.operations.limits import limit_field
from dpq.protocol.command import Steps
from dpq.protocol.values import read_texts

NAMED, LARGEST, LAST_TO_OPEN = 50, 50, 20
"""Numbers of groups from which a drain time is computed: groups with a limit of their own, the
largest groups, and the closed groups that open last."""


def drain_look(part: Any, *supposed: str) -> Steps[DrainLook]:
    """Read what the drain time depends on.

    Args:
        part: The operations of the queue.
        supposed: Nothing; or a field of limits that is counted in any case; or that and its rules,
            as if they were set.
    """
    args: list[int | str] = [NAMED, LARGEST, LAST_TO_OPEN, *supposed]
    look: Steps[DrainLook] = part.report("drain", args, read_drain)
    return look


def limit_on_paper(part: Any, group: str | None, rules: LimitRules | None) -> Steps[Paper]:
    """Read what stands of a limit, and look at the drain as it is and with other rules, or none."""
    stands, every = yield from part.standing(group)
    field = limit_field(group)
    now = yield from drain_look(part, field)
    text = rules.text(int(now.now)) if rules else ""
    return Paper(stands, every, now, (yield from drain_look(part, field, text)))


def read_drain(reply: Sequence[Any]) -> DrainLook:
    """Read the reply of drain."""
    settings, flat = reply
    now, paused, backlog, came, ended, delayed, first, running, stored, _ = read_texts(settings)
    texts = read_texts(flat)
    rows = zip(texts[::4], texts[1::4], texts[2::4], texts[3::4], strict=True)
    return DrainLook(
        now=float(now),
        paused_until=math.inf if paused == "inf" else float(paused or 0),
        backlog=int(backlog),
        came=int(came),
        ended=int(ended),
        scopes=[_scope(*row) for row in rows],
        delayed=int(delayed),
        next_due=float(first or math.inf),
        invisible=int(running),
        exists=stored != "0",
    )


def _scope(group: str, waiting: str, text: str, rules: str) -> Scope:
    clears, slowest, opens, why, busy, rated = text.split(" ")
    slowest = "" if slowest == "-" else slowest
    is_busy, is_rated, unreadable = busy == "1", rated == "1", rated == "?"
    return Scope(
        *(group, int(waiting), float(clears), slowest, float(opens), why),
        *(is_busy, is_rated, unreadable, rules),
    )
