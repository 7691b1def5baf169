"""The options of one task: its visibility and its time limit, kept in its record."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from dpq import DPQ, TaskNotFoundError

LIMIT = {"visibility": 300.0, "time_limit": 7.5}


def options(task: Any) -> tuple[float | None, float | None]:
    return task.visibility, task.time_limit


def test_a_task_has_a_lease_of_its_own(q: DPQ[Any], clock: Any) -> None:
    """Its own visibility comes before what its consumer asks for; others keep theirs."""
    q.push("own", priority=9, visibility=300)
    q.push("plain")
    own, plain = q.pop_many(2, visibility=20)
    assert own.visible_until.timestamp() * 1000 == clock() + 300_000
    assert plain.visible_until.timestamp() * 1000 == clock() + 20_000
    assert q.get(own.id).visible_until == own.visible_until
    clock.advance(20)
    q.promote()
    assert [task.payload for task in q.peek(state="invisible")] == ["own"]
    clock.advance(280)
    assert own.id in [task.id for task in q.pop_many(2)]
    assert q.check() == []


def test_a_task_is_found_by_its_key(q: DPQ[Any]) -> None:
    """In every state, with its id; an unknown key is told by name."""
    task_id = q.push("a", key="k", group="g")
    assert (q.get(key="k").id, q.get(key="k").state) == (task_id, "ready")
    q.bury(q.pop().task, "no")
    assert (q.get(key="k").id, q.get(key="k").reason) == (task_id, "no")
    with pytest.raises(TaskNotFoundError, match="the task with key 'other'"):
        q.get(key="other")


def test_a_cost_changes_in_place(q: DPQ[Any], clock: Any) -> None:
    """A waiting or ready task takes its new cost of the limit; a running one at its next run."""
    q.set_limit(10, 10, burst=10, group="g")
    first, second = q.push("a", group="g"), q.push("b", group="g")
    q.update(first, cost=7)
    task = q.pop().task
    assert (task.id, task.cost) == (first, 7)
    assert q.admin.group("g").units_left[0] == pytest.approx(3)
    q.update(first, cost=2)
    q.release(task)
    assert q.get(first).cost == 2
    q.update(second, cost=5, priority=9)
    assert q.pop().task is None
    assert q.check() == []
    clock.advance(20)
    assert q.pop().task.id == second
    assert q.check() == []


def test_a_moment_is_counted_by_the_servers_clock(q: DPQ[Any], clock: Any) -> None:
    """`at` is due then, one that has passed is due now; a batch asks for the time once, and a
    recurring task counts from there."""
    now = datetime.fromtimestamp(clock() / 1000, UTC)
    far = timezone(timedelta(hours=-11))
    q.push("at", at=(now + timedelta(seconds=60)).astimezone(far))
    q.push("passed", at=now - timedelta(days=1))
    q.push("every", every=10, at=now + timedelta(seconds=5))
    assert [task.payload for task in q.peek(state="ready")] == ["passed"]
    assert {t.payload: t.visible_until for t in q.peek(state="delayed")} == {
        "at": now + timedelta(seconds=60),
        "every": now + timedelta(seconds=5),
    }
    clock.advance(5)
    q.pop_many(2)
    assert q.check() == []
