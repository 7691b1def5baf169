"""set_limit: what the queue, a group or every group may do, set, changed and removed."""

import pytest
from kit.limits import LONG, SCOPES, fill, payloads

from dpq import DPQ, Adaptive, ConfigurationError, Push, RateLimit, Reserve


def walk(probe, clock, field, rules, heavy=0):
    """All calls of one set_limit: what each says."""
    said = [[b"set", b"0"]]
    while said[-1][0] != b"done":
        said.append(probe.call("set_limit", clock(), field, rules, heavy, *said[-1]))
    return said[1:]


# What is stored


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((10, 1), b"0|10 1000 1"),
        ((2.5, 0.5, 3), b"0|2.5 500 3"),
        (([RateLimit(5000, 3600), RateLimit(10, 1, 2)],), b"0|10 1000 2|5000 3600000 1"),
    ],
)
def test_text(q, probe, given, text):
    """A limit is stored as one line, the shortest window first: the queue's own in conf."""
    q.set_limit(*given)
    q.set_limit(*given, group="g")
    q.set_limit(*given, group="*")
    assert probe.stored()["conf"][b"queue_rules"] == text
    assert probe.stored()["limits"] == {b"group:g": text, b"groups": text}


def test_text_of_all(q, probe):
    """Concurrency, learning and a reserve are part of that line."""
    q.set_limit(4, 1, 5, group="g", concurrency=3, adaptive=Adaptive(1, 8), reserve=Reserve(2, 7.5))
    q.set_limit(concurrency=9, group="h")
    assert probe.stored()["limits"] == {
        b"group:g": b"3~1 8 1.0|4 1000 5 2 7.5",
        b"group:h": b"9",
    }


@pytest.mark.parametrize("scope", SCOPES)
def test_clear(q, clock, probe, scope):
    """Cleared, the limit lets everything run at once, and no word of it stays."""
    q.set_limit(1, 1000, group=scope, concurrency=1)
    fill(q, 4)
    assert payloads(q) == [0]
    q.clear_limit(scope)
    assert payloads(q) == [1, 2, 3]
    assert "limits" not in probe.stored()
    assert b"queue_rules" not in probe.stored()["conf"]


@pytest.mark.parametrize("scope", SCOPES)
def test_clear_what_is_not_limited(q, probe, scope):
    """Clearing a limit that nobody set changes nothing for the tasks."""
    fill(q, 2)
    before = probe.stored()
    q.clear_limit(scope)
    after = probe.stored()
    assert [after[part] for part in ("ready", "waiting", "groups")] == [
        before[part] for part in ("ready", "waiting", "groups")
    ]
    assert "limits" not in after


def test_clear_a_groups_own(q, clock):
    """A group whose own limit is cleared has the default's again, and what it was granted counts.

    The other groups keep theirs.
    """
    q.set_limit(1, 10, group="*")
    q.set_limit(1, 10, burst=2, group="g")
    fill(q, 5)
    fill(q, 2, group="h")
    assert payloads(q) == [0, 1, 0]
    q.clear_limit("g")
    clock.advance(10)
    assert payloads(q) == [1]
    clock.advance(10)
    assert payloads(q) == [2]
    clock.advance(10)
    assert payloads(q) == [3]


def test_clear_a_groups_own_with_leases_out(q):
    """The leases that are out then count for the default's concurrency."""
    q.set_limit(concurrency=1, group="*")
    q.set_limit(10, 1, burst=5, group="g")
    fill(q, 3)
    [task] = q.pop_many(1)
    q.clear_limit("g")
    assert payloads(q) == []
    q.ack(task)
    assert payloads(q) == [1]


# For whom, and from when


@pytest.mark.parametrize("scope", SCOPES)
def test_consumers_that_were_there_before(q, clock, scope):
    """A limit holds for every consumer from then on, those that have popped before included."""
    other = DPQ(q.redis, q.queue_name, clock=clock)
    fill(q, 6)
    assert payloads(other, 1) == [0]
    q.set_limit(1, 10, group=scope)
    assert payloads(other) == [1]
    assert payloads(q) == []
    q.set_limit(1, 10, burst=2, group=scope)
    assert payloads(other) == [2]


@pytest.mark.parametrize("scope", SCOPES)
def test_said_again(q, clock, scope):
    """A limit that each process says at its start gives nothing away: what was granted counts."""
    fill(q, 4)
    for _ in range(3):
        q.set_limit(1, 10, burst=2, group=scope)
        payloads(q)
    assert q.stats().popped == 2
    clock.advance(9.999)
    q.set_limit(1, 10, burst=2, group=scope)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [2]


HOUR = RateLimit(100, 3600, burst=100)

CHANGES = {
    "a tighter one holds from the next unit on": (
        RateLimit(10, 1),
        {"rate": RateLimit(1, 10)},
        [(0.1, [1]), (9.999, []), (0.001, [2])],
    ),
    "a larger burst may be used at once, less what was granted": (
        RateLimit(1, 10),
        {"rate": RateLimit(1, 10, burst=3)},
        [(0, [1, 2]), (10, [3])],
    ),
    "a looser one waits no longer than for a window and a unit": (
        RateLimit(1, 600),
        {"rate": RateLimit(10, 600)},
        [(0, []), (660, [1]), (60, [2])],
    ),
    "a window of another length begins with its whole burst": (
        RateLimit(1, 3600),
        {"rate": RateLimit(10, 1, burst=2)},
        [(0, [1, 2]), (0.1, [3])],
    ),
    "so does a longer one beside the old one": (
        RateLimit(1, 1),
        {"rate": [RateLimit(1, 1), RateLimit(2, 1000, burst=2)]},
        [(1, [1]), (1, [2]), (1, [])],
    ),
    "a window that stays keeps what it has granted beside a shorter one": (
        HOUR,
        {"rate": [RateLimit(50, 1, burst=50), HOUR]},
        [(0, []), (36, [100])],
    ),
    "a rate is gone when only a concurrency is said": (
        RateLimit(1, 1000),
        {"concurrency": 3},
        [(0, [1, 2]), (0, [])],
    ),
}
"""The window before, the limit that takes their place, and what may run so many seconds on."""


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("change", CHANGES)
def test_replaced(q, clock, scope, change):
    """A limit takes the place of the whole one before; what that has granted counts."""
    before, after, follows = CHANGES[change]
    q.set_limit(before, group=scope)
    fill(q, before.burst + 9)
    assert payloads(q) == list(range(before.burst))
    q.set_limit(**after, group=scope)
    for seconds, run in follows:
        clock.advance(seconds)
        assert payloads(q) == run


# Groups that are closed already, and heads that are ready


@pytest.mark.parametrize("scope", ["g", "*"])
def test_a_spent_group_opens_for_a_looser_limit(q, scope):
    """A group that is spent is open at once when its new limit lets it run."""
    q.set_limit(1, 10, group=scope)
    fill(q, 3)
    assert payloads(q) == [0]
    q.set_limit(concurrency=5, group=scope)
    assert [task.payload for task in q.peek()] == [1]


def test_hundreds_of_spent_groups_open(q, clock, probe):
    """All spent groups open when the default is cleared, however many they are."""
    q.set_limit(1, 10, group="*")
    q.push_many(Push(payload=i, group=f"g{i}") for i in range(450) for _ in range(2))
    assert len(payloads(q)) == 450
    assert (q.stats().ready, q.stats().waiting) == (0, 450)
    said = walk(probe, clock, "groups", "")
    assert len(said) > 1
    assert {step for step, _ in said[:-1]} <= {b"leases", b"closed"}
    assert (q.stats().ready, q.stats().waiting) == (450, 0)


@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_closed_otherwise_stays_closed(q, clock, scope):
    """Neither a new limit nor its end opens the groups that a 429 or a hand has closed."""
    q.set_limit(1, 10, group=scope)
    fill(q, 3)
    fill(q, 3, group="h")
    q.rate_limited(q.pop().task, 60)
    q.delay_group("h", 60)
    q.set_limit(5, 1, group=scope)
    assert payloads(q) == []
    q.clear_limit(scope)
    assert payloads(q) == []
    clock.advance(59.999)
    assert payloads(q) == []
    clock.advance(0.001)
    assert sorted(payloads(q)) == [0, 0, 1, 2]


def test_a_closed_queue_stays_closed(q):
    """A queue that a 429 has closed stays so for a new limit and without one; resume opens it."""
    fill(q, 3)
    q.rate_limited(q.pop().task, 60, "queue")
    q.set_limit(5, 1)
    assert payloads(q) == []
    q.clear_limit()
    assert payloads(q) == []
    q.resume()
    assert payloads(q) == [0, 1, 2]


@pytest.mark.parametrize("scope", ["g", "*"])
def test_ready_heads(q, clock, scope):
    """A head that is ready when its group's limit is set runs only when that lets it."""
    q.set_limit(1, 10, group=scope)
    fill(q, 3)
    assert payloads(q) == [0]
    q.clear_limit(scope)
    assert q.stats().ready == 1
    q.set_limit(1, 10, group=scope)
    assert payloads(q) == []
    clock.advance(10)
    assert payloads(q) == [1]


def test_of_a_group_that_nobody_knows(q, probe):
    """A limit may come before the first task of its group."""
    q.set_limit(1, 10, group="new")
    assert "closed" not in probe.stored()
    fill(q, 2, group="new")
    assert payloads(q) == [0]


# Leases that are out


@pytest.mark.parametrize("scope", SCOPES)
def test_concurrency_counts_the_leases_that_are_out(q, scope):
    """A concurrency that is set while leases are out counts them, more than it allows included."""
    fill(q, 9)
    tasks = q.pop_many(4, visibility=LONG)
    q.set_limit(concurrency=2, group=scope)
    for task in tasks[:2]:
        assert payloads(q) == []
        q.ack(task)
    assert payloads(q) == []
    q.ack(tasks[2])
    assert payloads(q) == [4]
    assert payloads(q) == []
    q.set_limit(concurrency=4, group=scope)
    assert payloads(q) == [5, 6]


def test_concurrency_counts_each_groups_leases(q):
    """For the default each group's leases count by themselves, and ungrouped ones for none."""
    q.push_many(Push(payload=f"{g}{i}", group=g) for i in range(4) for g in "ab")
    q.push_many(Push(payload=i) for i in range(3))
    assert payloads(q, 4) == ["a0", "b0", "a1", "b1"]
    q.set_limit(concurrency=3, group="*")
    q.set_limit(concurrency=2, group="b")
    assert payloads(q) == ["a2", 0, 1, 2]


@pytest.mark.parametrize("scope", ["g", "*"])
def test_concurrency_counts_more_leases_than_a_call_looks_at(server, q, clock, probe, scope):
    """With 2500 leases out each of them is counted, in bounded steps."""
    fill(q, 2503)
    tasks = [task for _ in range(5) for task in q.pop_many(500, visibility=LONG)]
    field = "groups" if scope == "*" else "group:g"
    said = walk(probe, clock, field, "2501")
    assert [step for step, _ in said].count(b"leases") >= 1
    assert payloads(q) == [2500]
    assert payloads(q) == []
    q.ack_many(tasks[:2])
    assert payloads(q) == [2501, 2502]


def test_pops_between_the_calls(server, q, clock, probe):
    """What is popped while the leases are still being counted counts too, and twice for nobody."""
    fill(q, 2503)
    for _ in range(5):
        q.pop_many(500, visibility=LONG)
    said = probe.call("set_limit", clock(), "group:g", "2502", 0, "set", "0")
    assert said[0] == b"leases"
    assert payloads(q, 1) == [2500]
    while said[0] != b"done":
        said = probe.call("set_limit", clock(), "group:g", "2502", 0, *said)
    assert payloads(q) == [2501]
    assert payloads(q) == []


# Who is told


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("change", ["looser", "clear"])
def test_wakes(q, clock, probe, scope, change):
    """Whoever sleeps by the old limit is told to look, and pushes wake again."""
    q.set_limit(1, 10, group=scope)
    fill(q, 3)
    assert payloads(q) == [0]
    q._session.run(q._operations.pop, 1, None, "-")
    probe.woken()
    if change == "clear":
        q.clear_limit(scope)
    else:
        q.set_limit(1, 10, 3, group=scope)
    assert probe.woken()
    assert not {b"shut_until", b"watched"} & set(probe.stored()["conf"])
    q.push("new")
    assert probe.woken()


def test_refused_before_anything_is_sent(q, probe):
    """A limit that cannot be is refused, and the old one stands."""
    q.set_limit(1, 10)
    before = probe.stored()
    with pytest.raises(ConfigurationError):
        q.set_limit([RateLimit(1, 10), RateLimit(1, 20, adaptive=Adaptive(1, 2))])
    assert probe.stored() == before


class Named(float):
    """As numpy's floats are: a float whose repr is no number."""

    def __repr__(self) -> str:
        return f"Named({float(self)!r})"


@pytest.mark.parametrize("what", ["rate", "reserve", "adaptive"])
def test_numbers_of_other_libraries(q, what):
    """A subclass of float is taken as the number that it is, or refused; no pop breaks by it."""
    number = Named(2.5)
    try:
        if what == "rate":
            q.set_limit(number, 1)
        elif what == "reserve":
            q.set_limit(2, 1, burst=3, reserve=Reserve(1, number))
        else:
            q.set_limit(3, 1, adaptive=Adaptive(number, 3))
    except ConfigurationError:
        return
    q.push("x")
    assert payloads(q) == ["x"]
    assert q.limits()[0].open in (True, False)
