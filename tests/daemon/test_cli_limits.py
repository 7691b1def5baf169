"""`dpq limit` before and after a change: the question, the refusal, the event, and the way back."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from dpq import DPQ, Adaptive, Push, Quota, RateLimit, Reserve
from dpq.cli import _terminal
from dpq.views import limits as views

Run = Callable[..., Result]


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person answers questions."""
    monkeypatch.setattr(_terminal, "asks", lambda: True)


def test_a_change_shows_both_sides(run: Run, q: DPQ) -> None:
    """What was, what will be, what each promises and when each drains; a pipe is not asked."""
    q.set_limit(1, 1, group="g")
    q.push_many([Push(n, group="g") for n in range(401)])
    said = run("limit", "set", "300/15m,moving", "--concurrency", 500, "--group", "g").stderr
    was, will_be = said.split("will be")
    assert "was      1/s" in was
    assert "never more than 1 request in any 1 s" in was
    assert "401 due tasks: all begun in 6 m 4" in was
    assert "300/15min,moving; 500 at once" in will_be
    assert "never more than 300 requests in any 15 m\n" in will_be
    assert "never more than 500 at once" in will_be
    assert "401 due tasks: all begun in 1" in will_be
    assert q.admin.group("g").windows == (RateLimit(300, 900, moving=True),)
    said = run("limit", "set", "300/15m,moving", "--concurrency", 500, "--group", "g").stderr
    assert "was" not in said


@pytest.mark.parametrize("agreed", [True, False])
@pytest.mark.parametrize("verb", [("set", "5/s"), ("clear",), ("undo",)], ids=" ".join)
def test_a_terminal_is_asked(
    run: Run, q: DPQ, at_terminal: None, verb: tuple[str, ...], agreed: bool
) -> None:
    """Without a yes nothing changes, and no event tells of it; --yes answers before."""
    q.set_limit(9, 1, group="g")
    q.set_limit(10, 1, group="g")
    before = q.admin.group("g"), q.admin.events()
    said = run("limit", *verb, "--group", "g", lines="y\n" if agreed else "n\n")
    assert "the limit of group g of" in said.stderr
    assert "?" in said.stderr
    assert ((q.admin.group("g"), q.admin.events()) == before) is not agreed
    assert ("nothing was changed" in said.stderr) is not agreed
    assert "?" not in run("limit", "set", "7/s", "--group", "g", "--yes").stderr
    assert q.admin.group("g").windows == (RateLimit(7, 1),)


def test_a_change_meanwhile_is_refused(run: Run, q: DPQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody sets between the question and the answer stays, and is shown."""
    q.set_limit(10, 1)
    look = views.look_at

    def change_behind(*asked: Any) -> Any:
        change = look(*asked)
        q.set_limit(3, 1, burst=2)
        return change

    monkeypatch.setattr(views, "look_at", change_behind)
    for words in (("set", "5/s"), ("clear",)):
        q.set_limit(10, 1)
        said = run("limit", *words, code=1).stderr
        assert "changed meanwhile, and nothing was done: now it is 3/s,burst=2" in said
    assert q.admin.limits()[0].windows == (RateLimit(3, 1, 2),)


KINDS: dict[str, dict[str, Any]] = {
    "two windows": {"rate": [RateLimit(10, 1, 3), RateLimit(9, 60, unit="tokens", estimate=2)]},
    "moving": {"rate": "300/15m,moving"},
    "learned": {"rate": 5, "per": 1, "adaptive": Adaptive(1, 20, 0.5)},
    "reserve and slack": {"rate": [RateLimit(5, 1, 9, Reserve(4, -1.5), slack=0.25)]},
    "quota": {"rate": Quota(900, "day", "Europe/Berlin", reserve=Reserve(9, 2**53 + 1))},
    "pool": {"rate": "60/m", "members": ["eu 1:8080", "b"], "weight": 2.5},
    "concurrency": {"concurrency": 3},
}


@pytest.mark.parametrize("kind", KINDS)
def test_undo(run: Run, q: DPQ, kind: str) -> None:
    """Each kind of limit comes back as it was, by a change with an event of its own; and again."""
    q.set_limit(group="g", **KINDS[kind])
    q.set_limit(1, 60, group="h")
    stood = q.admin.group("g")
    run("limit", "set", "2/s", "--group", "g")
    changed = q.admin.group("g")
    run("limit", "clear", "--group", "g")
    first = json.loads(run("admin", "events", "--json").stdout.splitlines()[2])
    assert first["before"] == stood.rules
    run("limit", "undo", "--group", "g")
    assert q.admin.group("g").rules == changed.rules
    run("limit", "undo", "--group", "g", "--event", first["id"])
    again = q.admin.group("g")
    assert (again.windows, again.concurrency, again.weight) == (
        stood.windows,
        stood.concurrency,
        stood.weight,
    )
    assert [one.quota for one in again.quotas] == [one.quota for one in stood.quotas]
    assert [one.name for one in again.members] == [one.name for one in stood.members]
    assert again.rules == stood.rules
    told = q.admin.events()
    assert [event.group for event in told] == ["g", "h", "g", "g", "g", "g"]
    assert (told[-1].before, told[-1].detail) == (changed.rules, stood.rules)
    assert "@" in told[-1].by or ":" in told[-1].by
    run("limit", "undo", "--group", "h")
    assert q.admin.group("h").rules == ""
