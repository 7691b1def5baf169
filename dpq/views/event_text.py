"""Events as words: the dashboard and `dpq admin events` show the same words.

The stream of events has numbers and the texts of limits as they are stored. It also has texts of
other programs, which stay as they are. No I/O, no clock.
"""

import re
from typing import NamedTuple

from dpq.limits.rules import rules_words
from dpq.model.history import Event
from dpq.model.rates import span

KINDS = {"rate_limited": "429"}
"""Kinds with other words; in all others `_` becomes a space. Another status is in the detail."""

_MS = re.compile(r"\b(\d{1,15}) ms\b")
_STATUS = re.compile(r"^(\d{3}), (.*)$")
_UNTIL = re.compile(r"^(.*) (\d{13})$")


class EventText(NamedTuple):
    """An event in words.

    Attributes:
        kind: The kind of the event, as in `429`, `503` or `limit set`.
        detail: More about it, or "".
        until_ms: The moment that belongs behind the detail, or None.
    """

    kind: str
    detail: str
    until_ms: float | None = None


def event_text(event: Event) -> EventText:
    """Write an event in words; a detail of an unknown form stays as it is."""
    kind, detail = kind_text(event.kind), event.detail
    if event.kind == "limit_set":
        return EventText(kind, _change_text(event))
    if event.kind in (
        "dead",
        "failed",
        "by_hand",
        "deployed",
    ):  # the detail is the text of another program
        return EventText(kind, detail + _by(event))
    if event.kind == "learned":
        return EventText(kind, f"a rate of {detail}")
    if event.kind == "rate_limited" and (status := _STATUS.match(detail)):
        kind, detail = status.groups()
    if found := _UNTIL.match(detail):
        return EventText(kind, found[1], float(found[2]))
    if detail == "0 ms":
        return EventText(kind, "at once")
    return EventText(kind, _MS.sub(lambda ms: span(int(ms[1]) / 1000), detail))


def kind_text(kind: str) -> str:
    """Write the kind of an event in words."""
    return KINDS.get(kind, kind.replace("_", " "))


def _change_text(event: Event) -> str:
    """Say what became of a limit, what it was, and who changed it."""
    group = event.group or None
    now = event.detail if event.detail == "removed" else rules_words(event.detail, group)
    if event.before and event.before == event.detail:
        now += ", begun anew"
    elif event.before:
        now += f" (was {rules_words(event.before, group)})"
    return now + _by(event)


def _by(event: Event) -> str:
    return f", by {event.by}" if event.by else ""
