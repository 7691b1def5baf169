"""Changes of limits: what is compared, what events keep, and what a change on paper foresees."""

from typing import Any

import pytest

from dpq import DPQ, Quota, RateLimit, Reserve
from dpq.limits.rules import LimitRules
from dpq.model.errors import LimitChangedError
from dpq.views import limits as views

SCOPES = [None, "g", "*"]


def rules(group: str | None, *given: Any, **more: Any) -> LimitRules:
    return LimitRules.checked(*given, group=group, **more)


def change(q: DPQ, group: str | None, wanted: LimitRules | None, expected: str | None) -> None:
    views.make(q, group, wanted, "ada", expected)


def standing(q: DPQ, group: str | None) -> str:
    return next((each.rules for each in q.admin.limits() if each.group == group), "")


@pytest.mark.parametrize("scope", SCOPES)
def test_only_what_was_seen_is_changed(q, probe, scope):
    """Where the expected rules stand it is done; else nothing is, and the error has what stands."""
    change(q, scope, rules(scope, 10, 1), "")
    change(q, scope, rules(scope, 5, 1, burst=2), "0|10 1000 1")
    before = probe.stored()
    for wanted in (rules(scope, 7, 1), None):
        for seen in ("", "0|10 1000 1", "0|5 1000 1"):
            with pytest.raises(LimitChangedError, match="now it is 5/s,burst=2") as refused:
                change(q, scope, wanted, seen)
            assert refused.value.stands == standing(q, scope) == "0|5 1000 2"
    assert probe.stored() == before
    change(q, scope, None, "0|5 1000 2")
    assert standing(q, scope) == ""
    with pytest.raises(LimitChangedError, match="now it is none"):
        change(q, scope, rules(scope, 7, 1), "0|5 1000 2")


def test_the_event(q):
    """It has both rules and who; the same limit again is none, and a reset is one."""
    windows = [RateLimit(10, 1, 3), Quota(900, "day", "Europe/Berlin", reserve=Reserve(9, 5))]
    pool = [f"eu {n}:8080 {'x' * 80}" for n in range(64)]
    q.set_limit(windows, group="g", members=pool, concurrency=2)
    for _ in range(2):
        q.set_limit("5/s", group="g")
        change(q, "g", rules("g", "5/s"), None)
    q.set_limit("5/s", group="g", reset=True)
    q.clear_limit("g")
    q.clear_limit("g")
    first, second, third, fourth = q.admin.events()
    assert (first.before, first.group) == ("", "g")
    told = LimitRules.read(second.before, "g")  # also if it is long
    assert (told.members, [*told.windows, *told.quotas]) == (tuple(pool), windows)
    assert (first.detail, len(first.detail) > 5000) == (second.before, True)
    assert (second.detail, third.detail, third.before) == ("0|5 1000 1",) * 3
    assert (fourth.detail, fourth.before) == ("removed", "0|5 1000 1")
    assert ":" in second.by
    change(q, "g", rules("g", "6/s"), "")
    assert q.admin.events()[-1].by == "ada"
    q.pause()
    assert (q.admin.events()[-1].before, q.admin.events()[-1].by) == (None, "")


FROM: dict[str, dict[str, Any]] = {
    "none": {},
    "a window": {"rate": RateLimit(10, 60, 5)},
    "moving": {"rate": RateLimit(10, 60, moving=True)},
    "a quota": {"rate": [RateLimit(10, 1), Quota(30, "hour", "UTC")]},
    "a pool": {"rate": RateLimit(10, 60, 5), "members": ["a", "b"]},
}
