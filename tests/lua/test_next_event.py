"""next_event: look at what time will bring, without touching it."""


def test_each_kind(q, clock, probe):
    """A due task, the end of a lease and the opening of a group are events; the nearest counts."""
    q.delay_group("g", 60)
    assert q.next_event() == 60
    q.push("x", delay=40)
    assert q.next_event() == 40
    q.push("y")
    probe.pop(visibility=20)
    assert q.next_event() == 20
    clock.advance(5.5)
    assert q.next_event() == 14.5


def test_overdue(q, clock, probe):
    """What is due by now is 0 away, and stays where it is."""
    q.push("x", delay=1)
    clock.advance(1)
    before = probe.stored()
    assert q.next_event() == 0
    clock.advance(100)
    assert q.next_event() == 0
    assert probe.stored() == before
