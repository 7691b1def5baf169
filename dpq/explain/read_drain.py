"""Reads the reply of `drain.lua`. No I/O."""

import math
from collections.abc import Sequence
from typing import Any

from dpq.explain.drain import DrainLook, Scope
from dpq.script.values import read_texts


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
