"""delay_group: close a group for a time, or open it. And _place: order inside groups."""

import pytest


@pytest.fixture
def group(q) -> list[str]:
    """Five tasks of group g, the best first."""
    return [q.push(f"g{i}", priority=-i, group="g") for i in range(5)]


def test_close_moves_the_head_only(q, probe, group):
    """Closing moves one entry, the head, and no record changes."""
    before = probe.stored()
    q.delay_group("g", 60)
    after = probe.stored()
    assert "ready" not in after
    assert probe.count("waiting") == 5
    assert set(map(tuple, before["waiting"])) < set(map(tuple, after["waiting"]))
    assert after["meta"] == before["meta"]
    assert "groups" not in after


def test_push_into_a_closed_group(q, clock, probe, group):
    """What comes into a closed group waits, and takes its place when the group opens."""
    q.delay_group("g", 60)
    probe.woken()
    assert probe.state(q.push("best", priority=9, group="g")) == "waiting"
    assert not probe.woken()
    clock.advance(60)
    assert probe.pop().payload == "best"


def test_push_into_an_empty_closed_group(q, clock):
    """A closed group without tasks lets no newcomer lead, by whichever script it comes."""
    q.push("due", group="g", delay=1)
    q.delay_group("g", 60)
    clock.advance(1)
    assert (q.promote(), q.stats().waiting) == (1, 1)
    q.purge()
    q.push("x", group="g")
    q.push("y", group="g", key="k")
    assert (q.stats().waiting, q.pop().task) == (2, None)


def test_open_by_hand(q, probe, group):
    """0 opens at once, promotes the best only, and wakes."""
    q.delay_group("g", 60)
    probe.woken()
    q.delay_group("g", 0)
    assert [task.payload for task in q.peek()] == ["g0"]
    assert probe.woken()
    assert "closed" not in probe.stored()


def test_better_newcomer_replaces_the_head(q, probe, group):
    """A better task of the group takes the head's place; an equal or worse one waits."""
    q.push("equal", priority=0, group="g")
    assert [task.payload for task in q.peek()] == ["g0"]
    q.push("better", priority=1, group="g")
    assert [task.payload for task in q.peek()] == ["better"]
    assert probe.drain() == ["better", "g0", "equal", "g1", "g2", "g3", "g4"]
