"""replay: dead tasks become ready, or due one after the other."""

import pytest


def bury(q, clock, *payloads, **options):
    """Dead tasks with these payloads, the first the longest dead: their ids."""
    ids = []
    for payload in payloads:
        ids.append(q.push(payload, priority=10**6, **options))
        q.bury(q.pop().task, f"reason {payload}")
        clock.advance(1)
    return ids


def test_all(q, clock, probe):
    """All come back at once, in their old order, with all their attempts and without a reason."""
    ids = bury(q, clock, 0, 1, max_attempts=2)
    ids.append(q.push(2, max_attempts=1))
    q.fail(q.pop().task)
    clock.advance(100)
    probe.woken()
    assert q.dead.replay() == 3
    assert probe.woken()
    assert {task.id for task in q.peek()} == {*ids}
    assert [(task.attempt, task.deliveries) for task in q.peek()] == [(1, 1)] * 3
    assert probe.record(ids[0])["reason"] == ""
    assert (q.stats().replayed, q.stats().dead) == (3, 0)


@pytest.mark.many_calls
def test_chosen(q):
    """Letters are chosen by reason, group and condition, over more than one page."""
    for i in range(130):
        q.push(i, group="ab"[i % 2])
    for task in q.pop_many(130):
        q.bury(task, "r" if task.payload < 120 else "s")
    assert q.dead.replay(reason="s") == 10
    assert q.dead.replay(reason="r", group="b", where=lambda task: task.payload > 100) == 10
    assert q.dead.replay() == 110


@pytest.mark.parametrize("rate", [2, 3, 0.5, 1000])
def test_rate(q, clock, probe, rate):
    """At a rate they come due one after the other, evenly, the first at once, in old order."""
    ids = bury(q, clock, *range(5))
    assert q.dead.replay(rate=rate) == 5
    assert [task.id for task in q.peek()] == ids[:1]
    dues = [task.visible_until.timestamp() * 1000 - clock.ms for task in q.peek(9, "delayed")]
    assert dues == [int((i + 1) * 1000 / rate) for i in range(4)]


def by_hand(q):
    """The details of the events of replays and purges."""
    return [event.detail for event in q.admin.events(limit=1000) if event.kind == "by_hand"]


@pytest.mark.parametrize("few", [True, False])
def test_a_replay_of_many_steps_is_one_event(q, clock, few):
    """Whatever the steps, one event counts all: so a large replay pushes no other event out."""
    ids = bury(q, clock, *range(250))
    assert q.dead.replay(ids if few else None) == 250
    assert by_hand(q) == ["replayed 250"]


def test_followers_wait_again_for_what_was_replayed_with_them(q, probe):
    """A chain that died runs in its order once more; a task whose first is dead runs at once."""
    first = q.push("a")
    second = q.push("b", after=[first])
    q.push("c", after=[second])
    q.bury(probe.pop(), "no")
    assert q.pop().task is None
    assert [task.payload for task in q.dead.list(9)] == ["a", "b", "c"]
    assert q.dead.replay() == 3
    for payload in "abc":
        task = probe.pop()
        assert task.payload == payload
        assert q.pop().task is None
        q.ack(task)
        assert q.check() == []
    first = q.push("a")
    second = q.push("b", after=[first])
    q.bury(probe.pop(), "no")
    assert q.pop().task is None
    assert q.dead.replay([second]) == 1
    assert probe.pop().payload == "b"
