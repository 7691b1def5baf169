"""The trail: what happened to each task, of a queue that keeps it; nothing of any other queue."""

from datetime import timedelta

import pytest

from dpq import DPQ, ConfigurationError, Event, Push
from dpq.operations.one_task import task_trail
from dpq.testing import Clock


@pytest.fixture
def traced(q, clock) -> DPQ:
    return DPQ(q.redis, q.queue_name, trail_max_events=100, clock=clock)


class Steps:
    """What has come to the trail since the last look."""

    def __init__(self, q: DPQ, clock: Clock) -> None:
        self._q, self._clock, self._last = q, clock, ""

    def __call__(self, *ids: str) -> list[tuple[str, str]]:
        """Kind and detail of the new events, which must be of these tasks, and of now."""
        found: list[Event] = self._q.trail(self._last)
        self._last = found[-1].id if found else self._last
        assert [event.task_id for event in found] == list(ids)
        assert {round(event.at.timestamp() * 1000) for event in found} <= {self._clock()}
        return [(event.kind, event.detail) for event in found]


def test_the_life_of_tasks(traced, clock):
    """Each verb leaves one event, and a repeated call that changes nothing leaves none."""
    q, steps = traced, Steps(traced, clock)
    a = q.push("a", 7, group="g", key="k")
    b = q.push("b", delay=3)
    assert steps(a, b) == [("pushed", "priority 7"), ("pushed", "priority 0, in 3000 ms")]
    q.push("x", group="g", key="k")  # keeps what is there
    q.push("x", 5, group="g", key="k", on_duplicate="update")
    q.update(b, priority=2, delay=1)
    assert steps(a, b) == [
        ("updated", "update, by a push of its key"),
        ("updated", "priority 2, in 1000 ms"),
    ]
    task = q.pop().task
    assert steps(a) == [("delivered", "delivery 1")]
    q.fail(task, "no", delay=0)
    q.fail(task, "no", delay=0)
    assert steps(a) == [("failed", "no")]
    q.release(q.pop().task, 0.5)
    assert steps(a, a) == [("delivered", "delivery 2"), ("released", "500 ms")]
    clock.advance(0.5)
    task = q.pop(visibility=2).task
    q.set_visibility(task, 0)
    q.rate_limited(q.pop(visibility=2).task, 0.5, "task")
    assert steps(a, a, a, a, a)[1::2] == [("deferred", "0 ms"), ("deferred", "429, 500 ms")]
    clock.advance(0.5)
    assert {q.pop(visibility=1).task.id, q.pop(visibility=1).task.id} == {a, b}
    steps(*[event.task_id for event in q.trail(limit=2)])
    clock.advance(1)
    q.promote()
    told = dict(zip(sorted((a, b)), steps(*sorted((a, b))), strict=True))  # as the set has them
    assert told == {a: ("lease_expired", "delivery 5"), b: ("lease_expired", "delivery 1")}


def test_each_end_is_told_once(traced, clock, probe):
    """Acks, one by one and together, twice or named twice; deaths, replays, what is cancelled."""
    q = traced
    ids = [q.push(n, group="g" if n % 2 else None) for n in range(4)]
    again = q.push("again", every=60)
    tasks = q.pop_many(5)
    while len(tasks) < 5:
        tasks += q.pop_many(5)
    steps = Steps(q, clock)
    steps(*[event.task_id for event in q.trail()])
    by_id = {task.id: task for task in tasks}
    q.ack(by_id[ids[0]])
    q.ack(by_id[ids[0]])
    q.ack_many([by_id[ids[1]], by_id[ids[1]], by_id[ids[0]], by_id[again]])
    assert steps(ids[0], ids[1], again) == 3 * [("acked", "")]
    q.bury(by_id[ids[2]], "bad")
    q.bury(by_id[ids[2]], "bad")
    q.dead.replay([ids[2]])
    q.cancel(ids[2])
    assert steps(ids[2], ids[2], "", ids[2]) == [
        ("dead", "bad"),
        ("replayed", "0 ms"),
        ("by_hand", "replayed 1"),
        ("cancelled", ""),
    ]


def test_groups_and_rare_things(traced, clock):
    """An event names the group of its task, or the member that it ran as."""
    q = traced
    q.set_limit(5, 1, group="g", members=["one"])
    q.push("x", group="g")
    q.ack(q.pop().task)
    told = [(e.kind, e.group, e.member) for e in q.trail()]
    expected = [("limit_set", "g", ""), ("pushed", "g", "")]
    assert told == [*expected, ("delivered", "g", "one"), ("acked", "g", "")]
    assert [e.kind for e in q.events()] == ["limit_set"]


def test_only_if_wanted(q, probe):
    """Any other queue keeps none, whatever happens."""
    q.push("x")
    q.fail(probe.pop(), "no", delay=0)
    q.ack(probe.pop())
    assert q.trail() == []
    assert not probe.redis.exists(probe.key("trail"))


def test_bounded(traced, probe):
    """The oldest go, in whole nodes of the stream; a text of any length is cut."""
    for _ in range(6):
        traced.push_many([Push("x")] * 100)
    assert 100 <= probe.redis.xlen(probe.key("trail")) <= 200
    traced.fail(probe.pop(), "x" * 900)
    assert len(traced.trail(limit=1)[0].detail) == 500


def test_its_order_is_that_of_the_stream(traced, clock):
    """Many events of one moment keep their order, and so do those of a clock that goes back."""
    ids = traced.push_many([Push(n) for n in range(12)])
    clock.ms -= 60_000
    ids.append(traced.push("late"))
    found = traced.trail()
    assert [event.task_id for event in found] == ids
    assert traced.trail(found[-1].id) == []


def test_the_setting(q, traced, clock):
    """It is the queue's: others follow it, and may not name another."""
    q.push("x")
    assert [event.kind for event in q.trail()] == ["pushed"]
    assert q.trail_max_events == 100
    with pytest.raises(ConfigurationError, match=r"trail_max_events is 7, but queue .* has"):
        DPQ(q.redis, q.queue_name, trail_max_events=7, clock=clock)
    with pytest.raises(ConfigurationError, match="from 0 to 10000000"):
        DPQ(q.redis, q.queue_name, trail_max_events=10**8, clock=clock)


@pytest.mark.damaged
def test_a_lost_trail_begins_anew(traced, probe):
    """Without its stream acks are not told, and the next push makes it again."""
    traced.push("x")
    probe.redis.delete(probe.key("trail"))
    traced.ack(probe.pop())
    traced.push("x")
    assert [event.kind for event in traced.trail()] == ["delivered", "acked", "pushed"]
    probe.redis.delete(probe.key("conf"))
    traced.push("y")
    assert traced.trail()[-1].kind == "pushed"


def test_the_trail_of_one_task(traced, redis, monkeypatch):
    """It goes back to the push of the task, in bounded steps, and says how far it looked."""
    q = DPQ(redis, traced.queue_name)  # by the server's clock
    before = q.push("before")
    a = q.push("a", 9)
    q.fail(q.pop().task, "no", delay=0)
    q.push_many(Push(n) for n in range(60))
    q.ack(q.pop().task)

    def look(id_, task=None, look=1000):
        return q._session.run(task_trail, q._operations, id_, task, look)

    found = look(a)
    kinds = ["pushed", "delivered", "failed", "delivered", "acked"]
    assert [event.kind for event in found.events] == kinds
    assert [event.task_id for event in found.events] == [a] * 5
    assert (found.looked, found.whole) == (66, True)
    monkeypatch.setattr("dpq.operations.one_task.LOOK", 10)
    assert look(a) == found
    hour = timedelta(hours=1)
    task = q.get(before)
    young = task.model_copy(update={"enqueued_at": task.enqueued_at + hour})
    assert look("nobody", young).looked == 10  # all other events are older
    found = look(a, look=20)
    assert ([event.kind for event in found.events], found.looked) == (kinds[3:], 20)
    assert not found.whole
    assert look(before, look=20).events == []
    dead = q.push("dead", 9)
    q.bury(q.pop().task, "no")
    task = q.get(dead)
    assert [event.kind for event in look(dead, task).events] == ["pushed", "delivered", "dead"]
    task = task.model_copy(update={"died_at": task.died_at - hour})
    assert look(dead, task).looked == 0  # it looks at nothing after the death
