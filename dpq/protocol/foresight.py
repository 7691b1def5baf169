"""The replies of the scripts `forecast` and `drain` -> what the model computes with. No I/O."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dpq.model.clearing import Wanted
from dpq.model.cost import read_cost
from dpq.model.drain import DrainLook, Scope
from dpq.model.forecast import PREVIEW_CHARACTERS, Candidate, Running, View
from dpq.model.gates import read_gate
from dpq.model.interrupts import raise_interruption
from dpq.model.pools import UNTIL_OPENED_MS
from dpq.model.priority import Aging
from dpq.model.queue_settings import spent_unit
from dpq.protocol.records import UNREADABLE, Plan, read_plan
from dpq.protocol.values import read_texts

LEAST_MEMBER = 17
"""Characters of the shortest member of `ready`: its order, and an id."""

SCORE_DIGITS = 18


def read_view(reply: Sequence[Any]) -> View:
    """Read the reply of forecast. Tasks that cannot be read are left out: pop buries them."""
    settings, counts, tasks, closed, gates, short = reply
    *texts, family = read_texts(settings)
    now, paused, fairness, partitions, turns, since, heavy = _settings(texts)
    view = View(
        now=now,
        paused_until=paused,
        turns=turns if fairness == "round_robin" else None,
        unit=spent_unit(fairness),
        timed=bool(partitions),
        aging=since,
        heavy=heavy,
        family=bool(family),
        short={name.decode("utf-8", "replace") for name in short},
    )
    names = [name.decode("utf-8", "replace") for name in gates[::2]]
    for name, line in zip(names, gates[1::2], strict=True):
        gate = view.gates[name] = read_gate(line.decode("utf-8", "replace"))
        for member, each in [("", gate), *gate.members.items()]:
            if each.probe_until > now:
                view.running.append(Running(each.probe_until, each.probe, name, member))
            view.running += [Running(end, held, name, member) for end, held in each.permits]
    opens = [float(at) for at in closed[1::2]]
    shut = [name.decode("utf-8", "replace") for name in closed[::2]]
    view.closed = dict(zip(shut, opens, strict=True))
    counted = dict.fromkeys(("r", "d", "i"), 0)
    last: dict[str, tuple[float, str]] = {}
    for kind, member, score, raw in _in_fours(tasks):
        holds, letter = kind == b"b", kind.decode().replace("b", "d")
        place = (float(score), member.decode("utf-8", "replace"))
        if letter in counted:
            counted[letter] += 1
            last[letter] = max(place, last.get(letter, place))
        try:
            plan = read_plan(raw.partition(b"\n")[0])
        except UNREADABLE as error:
            raise_interruption(error)
            continue
        _add(view, letter, *place, plan, raw, holds)
    for letter, count in zip("rdi", counts, strict=False):
        if count <= counted[letter] or letter not in last:
            continue
        if letter == "r":
            view.last_ready = last["r"]
        elif letter == "d":
            view.last_due = last["d"][0]
        else:
            view.last_end = last["i"][0]
    view.running = sorted({lease.id: lease for lease in sorted(view.running)}.values())
    # The probes stood there twice; the second one names the member.
    if counts[3] > len(opens):
        view.last_opening = max(opens, default=now)
    return view


def _add(
    view: View, letter: str, score: float, member: str, plan: Plan, raw: bytes, holds: bool
) -> None:
    """Add a task to the part of the view that its letter names."""
    id_ = member
    if letter == "w":
        text = member[len(plan.group) + 1 :]
        score, member = read_score(text[:SCORE_DIGITS]), text[SCORE_DIGITS:]
    if letter in "rhw":
        id_ = member[len(plan.order) :]
    elif letter == "i":
        lease = Running(score, id_, plan.group, plan.member)
        if score <= math.floor(view.now):
            view.lapsed.append(lease)
        else:
            view.running.append(lease)
            return
    task = Candidate(
        id=id_,
        member=plan.order + id_,
        shown=member if letter in "rh" else plan.order + id_,
        score=score if letter in "rhw" else plan.score,
        priority=plan.priority,
        group=plan.group,
        key=plan.key,
        units={"": plan.cost, **(plan.costs or {})},
        expires=plan.expires if plan.is_new else 0,
        lease=None if plan.visibility is None else plan.visibility * 1000,
        payload=_preview(raw),
        due=score if letter == "d" else 0.0,
        pinned=plan.pinned,
        holds=holds,
    )
    if letter == "w":
        view.waiting.setdefault(plan.group, []).append(task)
    elif letter == "d":
        if score < UNTIL_OPENED_MS:  # else nobody knows when its batch is finished
            view.delayed.append(task)
    elif letter == "i":
        if not plan.is_last:
            view.returned.append(task)
    else:
        view.ready.append(task)


def _settings(
    texts: Sequence[str],
) -> tuple[float, float, str, str, int, Aging, bool]:
    now, paused, fairness, partitions, turns, aging, since, heavy, order = texts
    least = order == "min"
    return (
        float(now),
        math.inf if paused == "inf" else float(paused or 0),
        fairness,
        partitions,
        int(turns or 0),
        Aging(float(aging or 0), float(since), least) if since else Aging(smallest_first=least),
        heavy == "1",
    )


def _preview(raw: bytes) -> str | None:
    _, inline, body = raw.partition(b"\n")
    return body.decode("utf-8", "ignore")[:PREVIEW_CHARACTERS] if inline else None


def read_score(digits: str) -> float:
    """Read the score in a member of `waiting`, as lua/lib/groups/groups.lua writes it."""
    high, low = int(digits[1:4], 16), int(digits[4:], 16)
    if digits[0] == "8":
        return math.ldexp(low, high - 1153)
    return -math.ldexp(2**53 - low, 4095 - high - 1153)


def _in_fours(flat: Sequence[Any]) -> Iterator[tuple[Any, Any, Any, Any]]:
    return zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)


def read_drain(reply: Sequence[Any]) -> DrainLook:
    """Read the reply of drain."""
    settings, flat = reply
    now, paused, backlog, came, ended, delayed, first, running, stored, family, order = read_texts(
        settings
    )
    least = order == "min"
    scopes = [
        Scope(group, int(waiting), read_gate(line), _wanted(tasks.split(), least))
        for group, waiting, line, tasks in _in_fours([*read_texts(flat)])
    ]
    until = math.inf if paused == "inf" else float(paused or 0)
    return DrainLook(
        now=float(now),
        paused_until=until,
        backlog=int(backlog),
        came=int(came),
        ended=int(ended),
        scopes=scopes,
        delayed=int(delayed),
        next_due=float(first or math.inf),
        invisible=int(running),
        exists=stored != "0",
        family=family,
        smallest_first=least,
    )


def _wanted(texts: Sequence[str], smallest_first: bool) -> list[Wanted]:
    """Read the costs, scores and orders of tasks."""
    found = []
    for cost, score, order in zip(texts[::3], texts[1::3], texts[2::3], strict=True):
        requests, others = read_cost(cost)
        found.append(Wanted({"": requests, **(others or {})}, -float(score), order, smallest_first))
    return found
