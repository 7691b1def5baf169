"""Events as words: the dashboard, `dpq events`, `dpq trail` and `dpq top` show the same words.

The stream of events has numbers and the texts of limits as they are stored. It also has texts of
other programs, which stay as they are. No I/O, no clock.
"""

import re
from typing import NamedTuple

from dpq.model.history import Event
from dpq.model.limits import read_rules
from dpq.model.pools import split_pool
from dpq.model.quota import read_quotas
from dpq.model.rates import per_text, span

KINDS = {"rate_limited": "429"}
"""Kinds with other words; in all others `_` becomes a space. Another status is in the detail."""

MEMBERS_SHOWN = 3

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
        return EventText(kind, _limit_text(detail))
    if event.kind in ("dead", "failed", "by_hand"):  # the detail is the text of another program
        return EventText(kind, detail)
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


def _limit_text(rules: str) -> str:
    try:
        windows, concurrency = read_rules(rules)
        quotas = read_quotas(split_pool(rules)[0])
        _, members, weight = split_pool(rules)
    # The text is `removed`, has another form, or was cut.
    except (ValueError, TypeError, LookupError):
        return rules
    said = [
        _counted(per_text(one.rate, one.per), one.unit)
        + (f", {one.burst} at once" if one.burst > 1 else "")
        + (", moving" if one.moving else "")
        for one in windows
    ]
    said += [
        _counted(f"{one.amount}/{one.period}", one.unit) + f" {one.timezone}" for one in quotas
    ]
    if concurrency:
        said.append(f"{concurrency} leases")
    if weight != 1:
        said.append(f"weight {weight:g}")
    text = "; ".join(said) or "no window"
    if members:
        more = f" and {len(members) - MEMBERS_SHOWN} more" if len(members) > MEMBERS_SHOWN else ""
        text += f"; for each of {', '.join(members[:MEMBERS_SHOWN])}{more}"
    return text


def _counted(rate: str, unit: str) -> str:
    units, _, time = rate.partition("/")
    return f"{units} {unit}/{time}" if unit else rate
