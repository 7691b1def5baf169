"""unique_for: a key that stays taken after the ack of its task, for a time or for ever."""

import math

import pytest

from dpq import DPQ, ConfigurationError, DuplicateTaskError


def seen(q, key="k", seconds=10.0, **options):
    """Push a task and ack it; returns its id."""
    task_id = q.push("first", key=key, unique_for=seconds, **options)
    assert q.ack(q.pop(id=task_id).task)
    return task_id


def test_for_a_time(q, clock, probe):
    """Until its time after the ack is over a push adds nothing and returns the old id."""
    task_id = q.push("x", key="k", unique_for=10)
    clock.advance(50)  # the time of the run does not count
    q.ack(probe.pop(100))
    clock.advance(9.999)
    assert q.push("again", 5, key="k") == task_id
    assert q.push("again", 5, key="k", on_duplicate="raise_priority") == task_id
    with pytest.raises(DuplicateTaskError, match="'k'") as error:
        q.push("again", key="k", on_duplicate="error")
    assert error.value.task_id == task_id
    assert (q.size(), q.stats().pushed) == (0, 1)
    clock.advance(0.001)
    assert q.push("again", key="k") != task_id
    assert probe.drain() == ["again"]
    assert q.push("third", key="k")  # the second task has said nothing of unique_for
    assert q.size() == 1


def test_for_ever(q, clock):
    """With `math.inf` the time is never over; the key is still told apart from those of tasks."""
    task_id = seen(q, seconds=math.inf)
    clock.advance(10**9)
    q.promote()
    assert q.push("again", key="k") == task_id
    assert q.size() == 0


@pytest.mark.parametrize("how", ["update", "rerun"])
def test_pushed_anew(q, clock, probe, how):
    """`update` and `rerun` add a new task under a seen key; upkeep leaves it its key."""
    old = seen(q)
    new = q.push("again", key="k", on_duplicate=how)
    assert new != old
    clock.advance(10)
    q.promote()
    assert q.push("third", key="k") == new
    assert probe.drain() == ["again"]


def test_other_ends(q, probe):
    """Cancel, purge and a dropped dead letter leave no seen key; a dead letter has its key."""

    def push():
        return q.push("x", key="k", unique_for=99)

    q.cancel(push())
    push()
    q.purge("ready")
    task_id = push()
    q.bury(probe.pop(), "no")
    assert push() == task_id
    q.dead.purge()
    assert push() != task_id


def test_what_is_over_goes(q, clock, probe):
    """An ack removes two seen keys whose time is over, and upkeep the others in steps."""
    for i in range(5):
        seen(q, f"k{i}", 1)
    clock.advance(1)
    seen(q, "new")
    assert len(probe.stored()["keys"]) == 4
    q.promote()
    assert set(probe.stored()["keys"]) == {b"new"}
    assert probe.count("recent") == 1


def test_cap(redis, q, clock, probe):
    """Over seen_max_keys the keys go that would be free soonest; those for ever by their acks."""
    capped = DPQ(redis, q.queue_name, seen_max_keys=2, clock=clock)
    assert q.settings.seen_max_keys == 1_000_000
    assert capped.settings.seen_max_keys == 2
    for key, seconds in (("z", math.inf), ("a", math.inf), ("soon", 5), ("later", 50)):
        clock.advance(1)
        seen(q, key, seconds)
    assert set(probe.stored()["keys"]) == {b"z", b"a"}
    clock.advance(1)
    seen(q, "b", math.inf)
    assert set(probe.stored()["keys"]) == {b"a", b"b"}


def test_refused(q):
    """What has no meaning is refused, and nothing is stored."""
    for message, options in {
        "no key": {},
        "recurs": {"key": "k", "every": 5},
        r"unique_for is 0: .* 0.001 to 315360000": {"key": "k", "unique_for": 0},
        "unique_for is nan": {"key": "k", "unique_for": math.nan},
    }.items():
        with pytest.raises(ConfigurationError, match=message):
            q.push("x", **({"unique_for": 5} | options))
    with pytest.raises(ConfigurationError, match="key is ''"):
        q.admin.forget("")
